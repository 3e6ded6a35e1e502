"""What the what-ifs of a run cost and saved: rules that vLLM 0.29 does not have, counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pagesim.sim.serving.fine_pool import FinePool
from pagesim.sim.serving.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SwapCounts:
    """`swapped` victims went to the host, for `recomputed` there was no room. `link_s`: the link was busy."""

    swapped: int
    recomputed: int
    blocks_out: int
    blocks_in: int
    peak_host_blocks: int
    link_s: float


@dataclass(frozen=True, slots=True)
class MatchCounts:
    """`blocks_copied`: admissions whose match ended inside a block; `part_tokens`: found in these blocks."""

    blocks_copied: int
    part_tokens: int


@dataclass(frozen=True, slots=True)
class ForkCounts:
    """`forks` prompts were shared. `blocks_saved`: that independent samples would have taken for their prompts, less
    `blocks_copied` when samples wrote behind them; `prompt_tokens_saved` were not computed."""

    forks: int
    blocks_saved: int
    blocks_copied: int
    prompt_tokens_saved: int


@dataclass(frozen=True, slots=True)
class WhatIfs:
    """None where the rule was vLLM's."""

    swap: SwapCounts | None = None
    match: MatchCounts | None = None
    fork: ForkCounts | None = None

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        return asdict(self)


def what_ifs(scheduler: Scheduler) -> WhatIfs:
    """Of a run that is over."""
    host, pool, forks = scheduler.host, scheduler.pool, scheduler.forks
    return WhatIfs(
        swap=None
        if host is None
        else SwapCounts(host.swapped, host.refused, host.blocks_out, host.blocks_in, host.peak_blocks, host.link_s),
        match=MatchCounts(pool.blocks_copied, pool.part_tokens) if isinstance(pool, FinePool) else None,
        fork=None
        if forks is None
        else ForkCounts(
            forks.forks, forks.spared_blocks - forks.blocks_copied, forks.blocks_copied, forks.spared_tokens
        ),
    )
