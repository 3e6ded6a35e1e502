"""Latencies of a run, by request and pooled.

TTFT, E2E and queueing time count from arrival. TPOT is (last token - first) / (outputs - 1) of each request, undefined
for one output. ITL is every interval between two tokens of a request, pooled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.trace import Floats

Mask = NDArray[np.bool_]


def since_arrival(log: ServingLog, when_s: Floats, counted: Mask) -> Distribution:
    """Of the `counted` requests (bool [requests]), how long after its arrival each had come to `when_s`."""
    known = counted & ~np.isnan(when_s)
    return Distribution.of((when_s - log.arrival_s)[known], int((counted & ~known).sum()))


def time_per_output_token(log: ServingLog, counted: Mask) -> Distribution:
    """TPOT of the `counted` requests; those with one output are missing."""
    known = counted & (log.output_tokens > 1) & ~np.isnan(log.finish_s)
    took_s = (log.finish_s - log.first_token_s)[known] / (log.output_tokens[known] - 1)
    return Distribution.of(took_s, int((counted & ~known).sum()))


def intervals(log: ServingLog, since_s: float = 0.0) -> Distribution:
    """ITL, exactly: an interval of each step, as often as sequences got a token, and those that were longer.

    Of the steps that start at `since_s` or later; missing are requests that arrived since and never got a token at all.
    """
    segments = log.segments[log.segments["start_s"] >= since_s]
    repeats = np.where(segments["growth_s"] > 0, segments["steps"], 1)  # equal steps are one value, often
    place = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    values = np.repeat(segments["first_s"], repeats) + place * np.repeat(segments["growth_s"], repeats)
    counts = np.repeat(segments["gaps"] * segments["steps"] // repeats, repeats)
    odd = log.odd_gaps["length_s"][log.odd_gaps["end_s"] > since_s]
    values, counts = np.concatenate((values, odd)), np.concatenate((counts, np.ones(len(odd), np.int64)))
    missing = np.isnan(log.first_token_s) & (log.arrival_s >= since_s)
    return Distribution.of(values, int(missing.sum()), counts)
