"""The figures of one allocator in one run: counts, the account of the pool over time, and what refusals found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagesim.sim.config import Growth
from pagesim.sim.occupancy import Occupancy, occupancy
from pagesim.sim.placement import ADMITTED, DROPPED, REFUSED, REJECTED, PlacementLog
from pagesim.sim.trace import Floats, Ints, Trace

SERIES_INTERVALS = 200


@dataclass(frozen=True, slots=True)
class AtRefusal:
    """What the refused found, as shares of the pool; means over refusals but for `occupied_first`.

    `unusable`: what was free, where it would have been enough in total for the request: external waste.
    `fragmentation`: 1 - largest free run / free, over the refusals that found anything free (None if none did).
    """

    occupied_mean: float
    occupied_first: float
    unusable_mean: float
    largest_free_run_mean: float
    asked_mean: float
    fragmentation_mean: float | None
    share_awkward: float  # of refusals: enough was free in total


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """One allocator, one run. Counts are of requests that arrived after the warm-up: `admitted` stayed to their end,
    `refused` found no room, `rejected` could never have been held, `dropped` were ended to make room.

    `means` is one interval, warm-up to last arrival; `steady` the last half of the time, over which `steady_sequences`
    is the mean number that were placed at once; `series` equal intervals over all of it; `unusable_series`: what
    refusals in each found free and could not use, in the mean, as AtRefusal's. `served_tokens`, `refused_tokens`: final
    lengths of all that were not rejected, and of the refused. `occupied_at_refusal`: a share of the pool for each
    refusal. `refused_by_length` and `offered_by_length`: requests whose total length lies between two of
    `length_edges`.
    """

    requests: int
    admitted: int
    refused: int
    rejected: int
    dropped: int
    served_tokens: int
    refused_tokens: int
    means: Occupancy
    steady: Occupancy
    steady_sequences: float
    series: Occupancy
    unusable_series: Floats
    at_refusal: AtRefusal | None
    occupied_at_refusal: Floats
    offered_by_length: Ints
    refused_by_length: Ints
    moved_tokens: int

    @property
    def refused_share(self) -> float:
        """Refused, of those that could ever be served; 0 if there are none."""
        return self.refused / max(1, self.requests - self.rejected)

    @property
    def refused_token_share(self) -> float:
        """The same by final length: who refuses the long ones refuses more of the tokens than of the requests."""
        return self.refused_tokens / max(1, self.served_tokens)

    @property
    def dropped_share(self) -> float:
        """Dropped, of those that could ever be served."""
        return self.dropped / max(1, self.requests - self.rejected)

    @property
    def rejected_share(self) -> float:
        """Rejected, of all."""
        return self.rejected / max(1, self.requests)


def length_edges(max_model_len: int) -> Ints:
    """Powers of two from 1 up to past `max_model_len`: bin k holds lengths in [edge k, edge k + 1)."""
    return 2 ** np.arange(max_model_len.bit_length() + 1)


def measure(
    trace: Trace,
    residence_s: Floats,
    log: PlacementLog,
    capacity: int,
    max_model_len: int,
    growth: Growth,
    warmup: float,
) -> Measures:
    """Work the figures out of a log. The window is [warmup * T, T], T the last arrival (or, if all come at 0, the
    last end)."""
    end_s = float(trace.arrival_s[-1]) or float(log.end_s.max()) or 1.0
    begin_s = warmup * end_s
    counted = trace.arrival_s >= begin_s
    outcome = log.outcome[counted]

    def over(edges_s: Floats) -> Occupancy:
        return occupancy(trace, residence_s, log, capacity, growth, edges_s)

    steady_s = max(begin_s, end_s / 2), end_s
    refusals = log.refusals[counted[log.refusals["request"]]]
    edges, total = length_edges(max_model_len), trace.total_tokens
    interval_edges_s = np.linspace(0, end_s, SERIES_INTERVALS + 1)
    series = over(interval_edges_s)
    return Measures(
        requests=len(outcome),
        admitted=int(np.sum(outcome == ADMITTED)),
        refused=int(np.sum(outcome == REFUSED)),
        rejected=int(np.sum(outcome == REJECTED)),
        dropped=int(np.sum(outcome == DROPPED)),
        served_tokens=int(total[counted & (log.outcome != REJECTED)].sum()),
        refused_tokens=int(total[refusals["request"]].sum()),
        means=over(np.array([begin_s, end_s])),
        steady=over(np.array(steady_s)),
        steady_sequences=_at_once(trace, log, *steady_s),
        series=series,
        unusable_series=_unusable_series(trace.arrival_s, log.refusals, capacity, interval_edges_s, series.free),
        at_refusal=_at_refusal(refusals, capacity),
        occupied_at_refusal=1 - refusals["free"] / capacity,
        offered_by_length=np.histogram(total[counted & (log.outcome != REJECTED)], edges)[0],
        refused_by_length=np.histogram(total[refusals["request"]], edges)[0],
        moved_tokens=log.moved_tokens,
    )


def _unusable_series(arrival_s: Floats, refusals: np.ndarray, capacity: int, edges_s: Floats, free: Floats) -> Floats:
    """By interval, the mean over its refusals of what each could not use; 0 without refusals, at most what was free in
    the mean of the interval."""
    interval = np.searchsorted(edges_s, arrival_s[refusals["request"]], side="left") - 1
    interval = np.clip(interval, 0, len(free) - 1)  # an arrival at 0 lies in the first
    unusable = np.where(refusals["free"] >= refusals["asked"], refusals["free"], 0) / capacity
    sums = np.bincount(interval, unusable, len(free))
    counts = np.bincount(interval, minlength=len(free))
    means: Floats = np.minimum(sums / np.maximum(counts, 1), np.maximum(free, 0))
    return means


def _at_once(trace: Trace, log: PlacementLog, begin_s: float, end_s: float) -> float:
    """How many requests had room, in the mean over that time."""
    entered = (log.outcome == ADMITTED) | (log.outcome == DROPPED)
    stayed_s = np.minimum(log.end_s[entered], end_s) - np.maximum(trace.arrival_s[entered], begin_s)
    return float(np.maximum(stayed_s, 0).sum() / (end_s - begin_s))


def _at_refusal(refusals: np.ndarray, capacity: int) -> AtRefusal | None:
    if len(refusals) == 0:
        return None
    free, largest = refusals["free"], refusals["largest_free_run"]
    awkward = free >= refusals["asked"]
    some = free > 0
    return AtRefusal(
        occupied_mean=1 - float(free.mean()) / capacity,
        occupied_first=1 - float(free[0]) / capacity,
        unusable_mean=float(np.where(awkward, free, 0).mean()) / capacity,
        largest_free_run_mean=float(largest.mean()) / capacity,
        asked_mean=float(refusals["asked"].mean()) / capacity,
        fragmentation_mean=float((1 - largest[some] / free[some]).mean()) if some.any() else None,
        share_awkward=float(awkward.mean()),
    )
