"""The engine's scheduler driven without a model: every token is one that nobody else ever sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from audit import SlotMemory

from pagesim.engine.cache_manager import CacheManager, make_cache
from pagesim.engine.config import EngineConfig
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.scheduler import Scheduler
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step
from pagesim.engine.step_log import Row, step_row

fresh_tokens = count(2**40)


def new_prompt(num_tokens: int) -> list[int]:
    return [next(fresh_tokens) for _ in range(num_tokens)]


def sequence(id: str, prompt: int | list[int], max_tokens: int, **more: object) -> Sequence:
    tokens = new_prompt(prompt) if isinstance(prompt, int) else prompt
    return Sequence(id, tokens, SamplingParams(max_tokens=max_tokens), **more)  # type: ignore[arg-type]


class AuditedScheduler(Scheduler):
    """With a pool that remembers what was written where."""

    def __init__(self, config: EngineConfig, cache: CacheManager, max_model_len: int) -> None:
        super().__init__(config, cache, max_model_len)
        self.memory = SlotMemory(cache)


def scheduler(num_blocks: int = 9, max_model_len: int = 64, **options: object) -> AuditedScheduler:
    config = EngineConfig(**{"model": "none", "block_size": 4, **options})  # type: ignore[arg-type]
    return AuditedScheduler(config, make_cache(config, num_blocks, max_model_len), max_model_len)


def sample(step: Step) -> dict[str, int]:
    return {sampler.id: next(fresh_tokens) for chunk in step.chunks for sampler in chunk.samplers}


def check_step(scheduler: AuditedScheduler, step: Step) -> None:
    """What must hold of every step, whatever the options. Writes and reads what a model would."""
    scheduler.cache.check()
    assert sum(chunk.num_tokens for chunk in step.chunks) == step.scheduled_tokens <= scheduler.config.token_budget
    assert step.running <= scheduler.config.max_num_seqs
    assert not (step.preempted and step.admitted)
    for chunk in step.chunks:
        assert chunk.num_tokens > 0 and chunk.start == chunk.sequence.num_computed
        assert chunk.stop <= len(chunk.sequence.tokens) < chunk.sequence.max_length
    scheduler.memory.run(step)


def drive(scheduler: AuditedScheduler, arrivals: Mapping[int, list[Sequence]], *, check: bool = True) -> Iterator[Row]:
    """Serve to the end; `arrivals`: by step. Idle steps are rows too."""
    last = max(arrivals, default=-1)
    while scheduler.has_work or scheduler.totals.steps <= last:
        for each in arrivals.get(scheduler.totals.steps, ()):
            scheduler.add(each)
        step = scheduler.schedule()
        if check:
            check_step(scheduler, step)
        finished = scheduler.finish_step(step, sample(step))
        yield step_row(step, finished, float(step.number))
    scheduler.cache.check()
    assert scheduler.cache.blocks_used == 0 and not scheduler.sequences
