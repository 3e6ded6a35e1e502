"""What a run was like for those who asked: latencies, throughput, and what the pool and the queue did meanwhile.

TTFT counts from arrival, queueing included. TPOT is (last token - first) / (outputs - 1) of each request, undefined for
one output. ITL is every interval between two tokens of a request, pooled. Requests that have no such figure are counted
beside it, never left out in silence.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pagesim.sim.serving.config import PAGED
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.scheduler import Stop
from pagesim.sim.trace import Floats, Ints

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Distribution:
    """`count` values in seconds. A quantile is the least value that at least that share of all reach or stay under.

    `missing`: requests that were to have a value and have none. All is None if there are no values.
    """

    count: int
    missing: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Floats, missing: int, counts: Ints | None = None) -> Distribution:
        """Of float64 [n]; `counts`, int64 [n], says how often each occurs, default once."""
        if counts is None:
            values, total = np.sort(values), len(values)
            reached = None
        else:
            order = np.argsort(values)
            values, reached = values[order], np.cumsum(counts[order])
            total = int(reached[-1]) if len(reached) else 0
        if not total:
            return cls(0, missing)
        ranks = np.ceil(np.array(list(QUANTILES.values())) * total).astype(np.int64)
        places = ranks - 1 if reached is None else np.searchsorted(reached, ranks)
        found = dict(zip(QUANTILES, values[places].tolist(), strict=True))
        sums = values if reached is None else values * np.diff(reached, prepend=0)
        last = -1 if reached is None else int(np.searchsorted(reached, total))
        return cls(total, missing, float(sums.sum()) / total, **found, max=float(values[last]))


@dataclass(frozen=True, slots=True)
class ServingFigures:
    """Figures of a run. `span_s`: from the first arrival to the last token. Times in seconds, rates per second of it.

    `waited_s`: time during which somebody waited, by why the head of the queue was not admitted. `blocks_mean`: over
    the span, idle time included, blocks taken to grow evenly within a stretch of steps. `tail_tokens_mean`: slots that
    are held and empty, on average over the same; None with prefix caching, where a slot may hold a token of several.
    Behind an allocator of contiguous runs, `blocks` are single slots.
    """

    requests: int
    finished: int
    unfinished: int
    rejected: int
    steps: int
    span_s: float
    requests_per_s: float
    output_tokens_per_s: float
    scheduled_tokens_per_s: float
    ttft_s: Distribution
    tpot_s: Distribution
    itl_s: Distribution
    e2e_s: Distribution
    queueing_s: Distribution
    preemptions: int
    preempted_requests: int
    recomputed_tokens: int
    prefix: dict[str, int]
    waited_s: dict[str, float]
    blocks_peak: int
    blocks_mean: float
    tail_tokens_mean: float | None

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        return asdict(self)


def figures(log: ServingLog) -> ServingFigures:
    """All figures of a run."""
    segments, totals = log.segments, log.totals()
    done = ~np.isnan(log.finish_s)
    outputs = int(log.output_tokens[done].sum())
    span_s = float(log.end_s - log.arrival_s[0]) if len(segments) else 0.0
    per_s = 1 / span_s if span_s else 0.0
    block_s = log.duration_s * (segments["blocks_used"] + segments["blocks_last"]) / 2
    return ServingFigures(
        requests=len(log.arrival_s),
        finished=int(done.sum()),
        unfinished=int((~done & ~log.rejected).sum()),
        rejected=int(log.rejected.sum()),
        steps=log.num_steps,
        span_s=span_s,
        requests_per_s=float(done.sum()) * per_s,
        output_tokens_per_s=outputs * per_s,
        scheduled_tokens_per_s=totals["scheduled_tokens"] * per_s,
        ttft_s=_since_arrival(log, log.first_token_s),
        tpot_s=_tpot_s(log),
        itl_s=intervals(log),
        e2e_s=_since_arrival(log, log.finish_s),
        queueing_s=_since_arrival(log, log.admitted_s),
        preemptions=totals["preemptions"],
        preempted_requests=len(np.unique(log.preemptions["row"])),
        recomputed_tokens=totals["recomputed_tokens"],
        prefix={name: count for name, count in totals.items() if name.startswith("prefix_")},
        waited_s=_waited_s(log),
        blocks_peak=totals["peak_blocks_used"],
        blocks_mean=float(block_s.sum()) * per_s,
        tail_tokens_mean=None if log.config.prefix_caching else _tail_tokens(log, float(block_s.sum())) * per_s,
    )


def goodput_per_s(log: ServingLog, ttft_s: float, tpot_s: float) -> float:
    """Finished requests a second that kept both limits; with one output only the first of them applies."""
    done = ~np.isnan(log.finish_s)
    gaps = np.maximum(log.output_tokens - 1, 1)
    kept = (log.first_token_s - log.arrival_s <= ttft_s) & ((log.finish_s - log.first_token_s) / gaps <= tpot_s)
    span_s = float(log.end_s - log.arrival_s[0]) if len(log.segments) else 0.0
    return float((kept & done).sum()) / span_s if span_s else 0.0


def intervals(log: ServingLog) -> Distribution:
    """Every interval between two tokens of one request, exactly: those of a step, as often as sequences got a token."""
    segments = log.segments
    repeats = np.where(segments["growth_s"] > 0, segments["steps"], 1)  # equal steps are one value, often
    place = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    values = np.repeat(segments["first_s"], repeats) + place * np.repeat(segments["growth_s"], repeats)
    counts = np.repeat(segments["gaps"] * segments["steps"] // repeats, repeats)
    odd = log.odd_gaps_s
    values, counts = np.concatenate((values, odd)), np.concatenate((counts, np.ones(len(odd), np.int64)))
    return Distribution.of(values, int(np.isnan(log.first_token_s).sum()), counts)


def _since_arrival(log: ServingLog, when_s: Floats) -> Distribution:
    known = ~np.isnan(when_s)
    return Distribution.of((when_s - log.arrival_s)[known], int((~known).sum()))


def _tpot_s(log: ServingLog) -> Distribution:
    several = log.output_tokens > 1
    known = several & ~np.isnan(log.finish_s)
    took_s = (log.finish_s - log.first_token_s)[known] / (log.output_tokens[known] - 1)
    return Distribution.of(took_s, int((~known).sum()))


def _waited_s(log: ServingLog) -> dict[str, float]:
    """Stretches count whole: the queue is looked at when one begins."""
    names = {Stop.NO_BLOCKS: "no blocks", Stop.NO_SEQUENCE: "max_num_seqs", Stop.NO_BUDGET: "token budget"}
    names[Stop.PREEMPTED] = "preemption"
    waits = log.waiting_at_start > 0
    return {name: float(log.duration_s[waits & (log.segments["stop"] == stop)].sum()) for stop, name in names.items()}


def _tail_tokens(log: ServingLog, block_s: float) -> float:
    """Token-seconds of slots that are held and empty."""
    segments = log.segments
    middle = segments["context_tokens"] + segments["gaps"] * (segments["steps"] - 1) / 2
    slots = log.config.block_size if log.config.allocator == PAGED else 1
    return block_s * slots - float((log.duration_s * middle).sum())
