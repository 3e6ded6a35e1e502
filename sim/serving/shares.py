"""Where the slots of the pool were while requests were served, in the four kinds of the PagedAttention paper.

Kwon et al., SOSP 2023, 3.1 and figure 2: slots that hold a token; slots that their owner will fill later; slots that
were asked for and that their owner never fills; and the rest of the pool, which is what an allocator adds by rounding,
and what is free. A request counts as going to fill prompt and answer to the last token, as in the paper's figure 3,
though the last one sampled needs no slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import PAGED
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.trace import Floats, Ints


@dataclass(frozen=True, slots=True)
class PoolShares:
    """Means over a stretch of time. The first four are shares of the usable slots, and sum to 1.

    `batch`: sequences that run. `waited`: the share of the time in which a request waits.
    """

    token_states: float
    reservation: float
    internal: float
    external: float
    batch: float
    waited: float


def pool_shares(log: ServingLog, asked: Ints | None, start_s: float, end_s: float) -> PoolShares:
    """Over the whole stretches of like steps between `start_s` and `end_s`; time in which nothing runs counts too.

    `asked`: slots that each request of the log asks for while it runs, int64 [requests]; None with paging, where
    blocks are asked for as they fill, so that nothing is a reservation and the tail of the last block is internal.
    Tokens are taken to grow evenly within a stretch. Raises UsageError if no stretch lies within the two times, or if
    `asked` does not go with the allocator.
    """
    if (asked is None) != (log.config.allocator == PAGED):
        raise UsageError(f"shares of {log.config.allocator}; accepted: slots asked for, and none of them with {PAGED}")
    segments, duration_s = log.segments, log.duration_s
    ends_s = segments["start_s"] + duration_s
    inside = (segments["start_s"] >= start_s) & (ends_s <= end_s)
    if not inside.any():
        raise UsageError(f"no step from {start_s:g} to {end_s:g} s; accepted: a time in which something runs")
    start_s, end_s = float(segments["start_s"][inside][0]), float(ends_s[inside][-1])

    def mean(values: Ints | Floats) -> float:
        return float((values * duration_s)[inside].sum()) / (end_s - start_s)

    growing = np.where(segments["steps"] > 1, segments["running"], 0)  # a lone step's tokens are counted at its end
    slots = log.config.usable_tokens
    held = mean(segments["context_tokens"] + growing * (segments["steps"] - 1) / 2)
    if asked is None:
        owned = mean((segments["blocks_used"] + segments["blocks_last"]) / 2) * log.config.block_size
        coming, never = 0.0, owned - held
    else:
        final = log.prompt_tokens + log.output_tokens
        stays_s = _stays_s(log, start_s, end_s) / (end_s - start_s)
        coming = float((stays_s * final).sum()) - held
        never = float((stays_s * (asked - final)).sum())
    external = slots - held - coming - never
    waited = mean(np.where(log.waiting_at_start > 0, 1, 0))
    return PoolShares(held / slots, coming / slots, never / slots, external / slots, mean(segments["running"]), waited)


def _stays_s(log: ServingLog, start_s: float, end_s: float) -> Floats:
    """Seconds between the two times in which each request ran, float64 [requests]; none is ever preempted."""
    assert len(log.preemptions) == 0, log.config.allocator
    stays_s = np.minimum(log.finish_s, end_s) - np.maximum(log.admitted_s, start_s)
    inside_s: Floats = np.maximum(np.nan_to_num(stays_s, nan=0.0), 0.0)
    return inside_s
