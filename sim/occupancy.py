"""Where the pool's slots were, over time: capacity = used + reserved + internal + free.

Exact integrals, not samples: what an allocator hands out is a step function of time, and so is the number of tokens
that a request holds, so the mean over any interval is a finite sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagesim.sim.config import Growth
from pagesim.sim.placement import ADMITTED, DROPPED, PlacementLog
from pagesim.sim.trace import Floats, Ints, Trace

CHUNK_TOKENS = 4_000_000  # steps of growth summed at once


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """Means over consecutive intervals, as shares of the pool; at each, used + reserved + internal + free = 1.

    `edges_s`: float64 [intervals + 1]. The others: float64 [intervals].
    """

    edges_s: Floats
    used: Floats
    reserved: Floats
    internal: Floats
    free: Floats

    @property
    def occupied(self) -> Floats:
        """What is owned: used + reserved + internal."""
        return self.used + self.reserved + self.internal


def occupancy(
    trace: Trace, residence_s: Floats, log: PlacementLog, capacity: int, growth: Growth, edges_s: Floats
) -> Occupancy:
    """Means over the intervals between `edges_s` (float64, increasing, from 0 or later).

    used: slots that hold a token. reserved: owned, empty, to be filled if the request reaches its end. internal: owned
    and never filled. free: not owned. `trace`, `residence_s` and `growth` as they were given to `place_all`.
    """
    entered = np.flatnonzero((log.outcome == ADMITTED) | (log.outcome == DROPPED))
    start_s, end_s = trace.arrival_s[entered], log.end_s[entered]
    final, owned = trace.total_tokens[entered], log.owned[entered]
    grown = log.growths
    place = np.searchsorted(entered, grown["request"])
    more_owned = np.bincount(place, grown["slots"], len(entered)).astype(np.int64)
    more_internal = np.bincount(place, grown["internal"], len(entered)).astype(np.int64)
    internal = np.maximum(owned - final, 0)

    owned_sum, internal_sum = _Steps(edges_s), _Steps(edges_s)
    for steps, at_start, later in ((owned_sum, owned, more_owned), (internal_sum, internal, more_internal)):
        steps.add(start_s, at_start)
        steps.add(end_s, -(at_start + later))
    owned_sum.add(grown["time_s"], grown["slots"])
    internal_sum.add(grown["time_s"], grown["internal"])

    owned_mean, internal_mean = owned_sum.means(), internal_sum.means()
    if growth == "final":
        used_mean = owned_mean - internal_mean
    else:
        used_mean = _used_while_growing(trace.take(entered), residence_s[entered], end_s, edges_s)
    reserved_mean = owned_mean - internal_mean - used_mean
    shares = (used_mean / capacity, reserved_mean / capacity, internal_mean / capacity, 1 - owned_mean / capacity)
    return Occupancy(edges_s, *shares)


def _used_while_growing(trace: Trace, residence_s: Floats, end_s: Floats, edges_s: Floats) -> Floats:
    """Mean tokens held: each request's prompt from its arrival, output token j after j/outputs of its residence."""
    steps = _Steps(edges_s)
    gap_s = residence_s / trace.output_tokens
    grown = np.minimum(trace.output_tokens - 1, ((end_s - trace.arrival_s) / gap_s).astype(np.int64))
    steps.add(trace.arrival_s, trace.prompt_tokens)
    steps.add(end_s, -(trace.prompt_tokens + grown))
    total = np.cumsum(grown)
    begin = 0
    while begin < len(trace):
        end = int(np.searchsorted(total, (total[begin - 1] if begin else 0) + CHUNK_TOKENS, side="right"))
        end = max(end, begin + 1)
        counts = grown[begin:end]
        number = np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        time_s = np.repeat(trace.arrival_s[begin:end], counts) + number * np.repeat(gap_s[begin:end], counts)
        steps.add(time_s, np.ones(len(time_s)))
        begin = end
    return steps.means()


class _Steps:
    """A sum of steps, each of some height from some moment on; integrated between edges."""

    def __init__(self, edges_s: Floats) -> None:
        self._edges_s = edges_s
        self._height = np.zeros(len(edges_s) + 1)
        self._moment = np.zeros(len(edges_s) + 1)

    def add(self, time_s: Floats, height: Ints | Floats) -> None:
        """Steps of `height` at `time_s`, arrays of one size."""
        interval = np.searchsorted(self._edges_s, time_s, side="left")  # 0: before the first edge
        self._height += np.bincount(interval, height, len(self._height))
        self._moment += np.bincount(interval, height * time_s, len(self._height))

    def means(self) -> Floats:
        """Mean over each interval: the integral up to edge E is the sum of height * (E - time) over earlier steps."""
        edges = self._edges_s
        standing = np.cumsum(self._height)[:-2]  # height at the left edge of each interval
        integral = standing * np.diff(edges) + self._height[1:-1] * edges[1:] - self._moment[1:-1]
        means: Floats = integral / np.diff(edges)
        return means
