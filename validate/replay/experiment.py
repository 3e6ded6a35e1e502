"""What is replayed: a trace, the rules and step times that both sides are told, and what they cannot both do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import EngineError
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace

BOTH_HAVE = "paged, reservation, exact-fit[:first|best|next|worst]"
NO_MODEL = "none"  # the engine's scheduler alone


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """A trace under rules that the simulator and the engine both have.

    `names`: what the requests are called, a sample each; default their rows. Raises UsageError on a rule that the
    engine does not have, or that the two define differently, with the reason.
    """

    trace: Trace
    config: ServingConfig
    step_time: StepTime
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_comparable(self.config)
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(self.trace.num_samples))))

    @property
    def samples(self) -> Trace:
        """The trace with a row for each sample of each prompt."""
        return independent_samples(self.trace)

    @property
    def groups(self) -> list[range]:
        """Rows of `samples` that the engine is given as one request: the samples of a prompt, if they fork."""
        n = np.ones(len(self.trace), np.int64) if self.trace.n is None else self.trace.n
        if self.config.fork == "none":
            return [range(row, row + 1) for row in range(int(n.sum()))]
        ends = np.cumsum(n).tolist()
        return [range(end - count, end) for end, count in zip(ends, n.tolist(), strict=True)]

    @property
    def unit(self) -> str:
        """What `ReplayStep.blocks_used` counts."""
        return "blocks" if self.config.allocator == PAGED else "slots"

    @property
    def engine_blocks(self) -> int:
        """Blocks of the engine's pool: the null block belongs to a paged one alone."""
        return self.config.num_blocks if self.config.allocator == PAGED else self.config.usable_blocks

    def with_engine_blocks(self, num_blocks: int) -> Experiment:
        """The same over the pool of an engine that has so many blocks."""
        null = 0 if self.config.allocator == PAGED else 1
        return replace(self, config=replace(self.config, num_blocks=num_blocks + null))

    def engine_config(self, model: str = NO_MODEL, device: str = "cpu", **pool: int | None) -> EngineConfig:
        """The rules as the engine's options. `pool`: as EngineConfig takes it, in place of the experiment's blocks."""
        c = self.config
        try:
            return EngineConfig(
                model,
                device=device,
                cache=c.allocator,
                block_size=c.block_size,
                token_budget=c.token_budget,
                max_num_seqs=c.max_num_seqs,
                max_model_len=c.max_model_len,
                prefix_caching=c.prefix_caching,
                chunked_prefill=c.chunked_prefill,
                long_prefill_threshold=c.long_prefill_threshold or None,
                reserve_full_isl=c.reserve_full_isl,
                watermark=c.watermark,
                policy=c.policy,
                **(pool or {"num_blocks": self.engine_blocks}),
            )
        except EngineError as error:
            raise UsageError(str(error)) from error


def check_comparable(config: ServingConfig) -> None:
    """Raise UsageError, with the reason, unless the engine does the same under these rules by its own definition."""
    contiguous = config.allocator != PAGED
    for flag, value, same, why in (
        ("--victim", config.victim, config.victim == "last", "the engine knows no other; accepted: last"),
        ("--evict", config.evict, config.evict == "lru", "the engine knows no other; accepted: lru"),
        ("--preempt", config.preempt, config.preempt == "recompute", "the engine has no swapping; accepted: recompute"),
        ("--prefix-match-unit", config.prefix_match_unit, not config.prefix_match_unit,
         "the engine matches whole blocks; accepted: 0"),
        ("--watermark", f"{config.watermark:g}", not (contiguous and config.watermark),
         f"with {config.allocator} the engine counts it in runs and the simulator in blocks; accepted: 0"),
        ("--token-budget", config.token_budget, config.chunked_prefill or config.token_budget >= config.max_model_len,
         f"without chunked prefill the engine asks for --max-model-len at least; accepted: {config.max_model_len}"),
        ("--token-budget", config.token_budget, config.fork == "none" or config.token_budget >= config.max_num_seqs,
         "with forks the simulator seats no more sequences than the budget has tokens, and the engine --max-num-seqs; "
         f"accepted: {config.max_num_seqs} or more"),
    ):  # fmt: skip
        if not same:
            raise UsageError(f"{flag} {value} cannot be replayed: {why}")
    kind, _, fit = config.allocator.partition(":")
    fits = ("", "first", "best", "next", "worst")
    if config.allocator not in (PAGED, "reservation") and not (kind == "exact-fit" and fit in fits):
        raise UsageError(
            f"--allocator {config.allocator} cannot be replayed, the engine has none; accepted: {BOTH_HAVE}"
        )
