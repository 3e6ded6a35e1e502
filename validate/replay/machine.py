"""The engine's side of a replay: its scheduler, who feeds it, and what computes a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pagesim.engine.cache_manager import make_cache
from pagesim.engine.scheduler import Scheduler
from pagesim.engine.sequence import Sampling, Sequence
from pagesim.engine.step import Step
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.prompts import Prompts


@dataclass(frozen=True, slots=True)
class Lengths:
    """Sampling parameters as far as a scheduler reads them."""

    max_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """`sampling`: the parameters of a request's row. `compute`: a step's tokens, by the id of who samples."""

    scheduler: Scheduler
    experiment: Experiment
    prompts: Prompts
    sampling: Callable[[int], Sampling]
    compute: Callable[[Step], Mapping[str, int]]

    def request(self, rows: range) -> Sequence:
        """The first of `rows`, with the others as its forks."""
        forks = tuple(self._sequence(row) for row in rows[1:])
        return self._sequence(rows[0], forks)

    def _sequence(self, row: int, forks: tuple[Sequence, ...] = ()) -> Sequence:
        trace = self.prompts.trace
        return Sequence(
            str(row),
            self.prompts.of(row),
            self.sampling(row),
            salt=None if trace.cache_salt is None else trace.cache_salt[row],
            adapter=None if trace.adapter is None else trace.adapter[row],
            priority=0 if trace.priority is None else int(trace.priority[row]),
            forks=forks,
        )


def scheduler_alone(experiment: Experiment) -> Machine:
    """No model: every token that is sampled is one that nobody else ever sees. Raises EngineError."""
    config, longest = experiment.engine_config(), experiment.config.max_model_len
    samples = experiment.samples
    prompts = Prompts(samples)
    cache = make_cache(config, experiment.engine_blocks, longest)

    def compute(step: Step) -> dict[str, int]:
        who = [sampler for chunk in step.chunks for sampler in chunk.samplers]
        return {each.id: prompts.output(int(each.id), len(each.tokens)) for each in who}

    return Machine(
        Scheduler(config, cache, longest),
        experiment,
        prompts,
        lambda row: Lengths(int(samples.output_tokens[row])),
        compute,
    )
