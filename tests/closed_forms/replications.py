"""Independent replications of small systems in equilibrium, and the interval that a formula must lie in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from pagesim.sim.allocators import AnyAllocator
from pagesim.sim.measures import Measures, measure
from pagesim.sim.placement import place_all
from pagesim.sim.trace import Trace

CONFIDENCE = 0.999
RUNS = 20
REQUESTS = 6_000
WARMUP = 0.1  # of some hundreds of mean residences

Draw = Callable[[np.random.Generator, int], np.ndarray[Any, Any]]

RESIDENCES: dict[str, Draw] = {  # each of mean 1
    "exponential": lambda rng, count: rng.standard_exponential(count),
    "constant": lambda _, count: np.ones(count),
    "lognormal": lambda rng, count: rng.lognormal(-0.5, 1.0, count),
}


def poisson_runs(
    make: Callable[[], AnyAllocator], rate_per_s: float, lengths: Draw, residence: Draw, proportional: bool = False
) -> Iterator[Measures]:
    """RUNS runs of Poisson arrivals. `lengths` are totals; `proportional`: residence is multiplied by the length."""
    for seed in range(RUNS):
        rng = np.random.default_rng([2718, seed])
        total = lengths(rng, REQUESTS)
        arrival_s = np.cumsum(rng.standard_exponential(REQUESTS)) / rate_per_s
        stay_s = residence(rng, REQUESTS) * (total if proportional else 1.0)
        trace, allocator = Trace(arrival_s, total - 1, np.ones(REQUESTS)), make()
        log, pool = place_all(trace, stay_s, allocator), allocator.pool
        yield measure(trace, stay_s, log, pool.capacity_tokens, pool.max_model_len, "final", WARMUP)


def assert_agrees(values: Sequence[float], formula: float, precision: float, what: str) -> None:
    """The formula lies in the interval of the values, and the interval is narrow enough to say something.

    Student's interval at CONFIDENCE; `precision`: the widest its half may be, as a part of the formula's value.
    """
    count, mean, deviation = len(values), float(np.mean(values)), float(np.std(values, ddof=1))
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(count)
    assert abs(mean - formula) <= half, f"{what}: {mean:.5f} +- {half:.5f}, by the formula {formula:.5f}"
    assert half <= precision * formula, f"{what}: +- {half:.5f} decides nothing about {formula:.5f}"
