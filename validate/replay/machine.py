"""The engine's side of a replay: its scheduler, what it is fed, and what computes a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagesim.engine.cache_manager import make_cache
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.scheduler import Scheduler
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.prompts import Prompts
from pagesim.validate.replay.rules import engine_blocks, engine_config

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """`run` computes a step's chunks; what the model answers is left aside.

    Its tokens are made up instead, so that no request's answer begins like another's: the trace says nothing of that,
    and a prefix cache would find it.
    """

    scheduler: Scheduler
    experiment: Experiment
    prompts: Prompts
    run: Callable[[Step], object]

    def request(self, rows: range) -> Sequence:
        """The first of `rows`, with the others as its forks."""
        return self._sequence(rows[0], tuple(self._sequence(row) for row in rows[1:]))

    def compute(self, step: Step) -> dict[str, int]:
        """The tokens of who samples, by id."""
        self.run(step)
        who = [sampler for chunk in step.chunks for sampler in chunk.samplers]
        return {each.id: self.prompts.output(int(each.id), len(each.tokens)) for each in who}

    def _sequence(self, row: int, forks: tuple[Sequence, ...] = ()) -> Sequence:
        trace = self.prompts.trace
        return Sequence(
            str(row),
            self.prompts.of(row),
            SamplingParams(temperature=0, max_tokens=int(trace.output_tokens[row]), ignore_eos=True),
            salt=None if trace.cache_salt is None else trace.cache_salt[row],
            adapter=None if trace.adapter is None else trace.adapter[row],
            priority=0 if trace.priority is None else int(trace.priority[row]),
            forks=forks,
        )


def scheduler_alone(experiment: Experiment) -> Machine:
    """No model, and nothing to compute. Raises EngineError."""
    rules = experiment.config
    config = engine_config(rules)
    cache = make_cache(config, engine_blocks(rules), rules.max_model_len)
    scheduler = Scheduler(config, cache, rules.max_model_len)
    return Machine(scheduler, experiment, Prompts(experiment.samples), lambda step: None)


def with_model(experiment: Experiment, engine: Engine) -> Machine:
    """An engine with its model: every step is computed."""
    prompts = Prompts(experiment.samples, engine.model.config.vocab_size)
    return Machine(engine.scheduler, experiment, prompts, engine.runner.run)
