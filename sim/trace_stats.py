"""What a trace holds, in figures: how many requests, how fast, how long, and how much of their prompts they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagesim.sim.hash_sharing import HashSharing, hash_sharing
from pagesim.sim.trace import Ints, Labels, Trace

LEAST_SPAN_S = 1e-9


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Tokens. Median and 95th percentile lie between two lengths where none stands there (linear interpolation)."""

    total: int
    mean: float
    median: float
    p95: float
    max: int

    @classmethod
    def of(cls, lengths: Ints) -> LengthStats:
        """Figures of a column of lengths, which must not be empty."""
        median, p95 = np.percentile(lengths, [50, 95])
        return cls(int(lengths.sum()), float(lengths.mean()), float(median), float(p95), int(lengths.max()))


@dataclass(frozen=True, slots=True)
class TraceStats:
    """Figures of a whole trace. `rate_per_s` is (requests - 1) / span, None if all arrive at once.

    `longest_gap_s` is the longest time without an arrival. `sessions` counts distinct names, None without the column;
    `samples` the answers asked for, where requests say how many.
    """

    requests: int
    span_s: float
    rate_per_s: float | None
    longest_gap_s: float
    distinct_arrivals: int
    prompt: LengthStats
    output: LengthStats
    sharing: HashSharing | None
    hash_block_tokens: int | None
    sessions: int | None
    cache_salts: int | None
    adapters: int | None
    samples: int | None
    sha256: str


def trace_stats(trace: Trace) -> TraceStats:
    """Figures of a trace of one request or more."""
    gaps = np.diff(trace.arrival_s)
    return TraceStats(
        requests=len(trace),
        span_s=trace.span_s,
        rate_per_s=(len(trace) - 1) / trace.span_s if trace.span_s > LEAST_SPAN_S else None,
        longest_gap_s=float(gaps.max(initial=0.0)),
        distinct_arrivals=1 + int((gaps > 0).sum()),
        prompt=LengthStats.of(trace.prompt_tokens),
        output=LengthStats.of(trace.output_tokens),
        sharing=hash_sharing(trace),
        hash_block_tokens=trace.hash_block_tokens,
        sessions=_distinct(trace.session),
        cache_salts=_distinct(trace.cache_salt),
        adapters=_distinct(trace.adapter),
        samples=None if trace.n is None else int(trace.n.sum()),
        sha256=trace.sha256(),
    )


def _distinct(labels: Labels | None) -> int | None:
    return None if labels is None else sum(name is not None for name in labels.names)
