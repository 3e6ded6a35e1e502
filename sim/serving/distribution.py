"""A distribution of times, said in a few numbers. Nothing is left out in silence: what has no value is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
