"""The account of the pool over time while requests are served: used + reserved + internal + free = the usable blocks.

Exact: what a step holds is known for each step, and stays while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.trace import Floats, Ints

MIN_INTERVAL_S = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class PoolMeans:
    """Means over consecutive intervals between `edges_s`, float64 [intervals + 1]; the others float64 [intervals].

    Shares of the usable pool, `used` (holds a token, those of the step that runs among them), `reserved` (held, to be
    filled if the request reaches its end), `internal` (held, never filled) and `free`, 1 together. Of what is free,
    `unusable`: while the head of the queue asked for no more than that and could not be placed; `cached`: can still be
    found by the prefix cache (none while nothing runs). `running` and `waiting` are requests.
    """

    edges_s: Floats
    used: Floats
    reserved: Floats
    internal: Floats
    free: Floats
    unusable: Floats
    cached: Floats
    running: Floats
    waiting: Floats


def pool_means(line: Timeline, edges_s: Floats) -> PoolMeans:
    """Means between `edges_s`, float64, increasing."""
    config, integral = line.log.config, _Integral(line, edges_s)
    used, internal, held = (
        integral.mean(column) / config.usable_tokens
        for column in (line.used_tokens, line.internal_tokens, line.held_tokens)
    )
    return PoolMeans(
        edges_s,
        used,
        np.maximum(held - used - internal, 0.0),  # less than that is the last bit of a sum
        internal,
        np.maximum(1 - held, 0.0),
        integral.mean(line.unusable_tokens) / config.usable_tokens,
        integral.mean(line.cached_blocks) / config.usable_blocks,
        integral.mean(line.running),
        integral.mean(line.waiting),
    )


class _Integral:
    """Of columns with one value for each step, which is that of the time in which the step runs; 0 between steps."""

    def __init__(self, line: Timeline, edges_s: Floats) -> None:
        start_s, self._duration_s = line.start_s, line.duration_s
        self._step = np.searchsorted(start_s, edges_s, side="right") - 1  # the last that began before each edge
        known = self._step >= 0
        self._inside_s = np.zeros(len(edges_s))
        step = self._step[known]
        self._inside_s[known] = np.minimum(edges_s[known] - start_s[step], self._duration_s[step])
        self._width_s = np.maximum(np.diff(edges_s), MIN_INTERVAL_S)
        # No longer than the interval but for rounding: a clock that has run for years is a coarse one.
        self._width_s = np.maximum(self._width_s, self._total(np.ones(len(start_s), np.int64)))

    def mean(self, column: Ints) -> Floats:
        """Over each interval."""
        return self._total(column) / self._width_s

    def _total(self, column: Ints) -> Floats:
        if not len(column):
            return np.zeros(len(self._step) - 1)
        before = np.concatenate(([0.0], np.cumsum(column * self._duration_s)))
        at_edges = before[np.maximum(self._step, 0)] + column[np.maximum(self._step, 0)] * self._inside_s
        total: Floats = np.diff(at_edges)
        return total
