"""The other side of a replay: a scheduler, what it is fed, and what computes a step. By default it is the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from collections.abc import Sequence as List
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pagesim.engine.cache_manager import CacheManager, make_cache
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.scheduler import Scheduler
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.prompts import Prompts
from pagesim.validate.replay.rules import engine_blocks, engine_config

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine


class Sums(Protocol):
    """Of a run, by the names of the recordings' format."""

    def as_dict(self) -> dict[str, int]:
        """Name to figure."""
        ...


class Requests(Sized, Iterable[Sequence], Protocol):
    """Some that wait."""


class Scheduling(Protocol):
    """What is driven. Steps and sequences are the engine's records, whoever decides: facts, and no mechanism.

    `totals`: sums that it counts by itself. `running` and `waiting`: as they are now.
    """

    @property
    def running(self) -> List[Sequence]: ...  # noqa: D102

    @property
    def waiting(self) -> Requests: ...  # noqa: D102

    @property
    def totals(self) -> Sums: ...  # noqa: D102

    @property
    def has_work(self) -> bool:
        """Whether anybody runs or waits."""
        ...

    def add(self, sequence: Sequence) -> None:
        """Let it wait. Raises RequestError on what could never be served."""
        ...

    def schedule(self) -> Step:
        """Decide the next step."""
        ...

    def finish_step(self, step: Step, sampled: Mapping[str, int]) -> List[Sequence]:
        """Take in its tokens, by sequence id; who finished, in order of the running list."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """`run` computes a step's chunks; what the model answers is left aside. `side`: what it is called. `slots_each`: of
    what its steps count as used, 1 for blocks.

    Its tokens are made up instead, so that no request's answer begins like another's: the trace says nothing of that,
    and a prefix cache would find it.
    """

    scheduler: Scheduling
    experiment: Experiment
    prompts: Prompts
    run: Callable[[Step], object] = lambda step: None
    side: str = "engine"
    slots_each: int = 1

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
    return Machine(scheduler, experiment, Prompts(experiment.samples), slots_each=_slots_each(cache))


def with_model(experiment: Experiment, engine: Engine) -> Machine:
    """An engine with its model: every step is computed."""
    prompts = Prompts(experiment.samples, engine.model.config.vocab_size)
    return Machine(engine.scheduler, experiment, prompts, engine.runner.run, slots_each=_slots_each(engine.cache))


def _slots_each(cache: CacheManager) -> int:
    return 1 if cache.is_paged else cache.block_size
