"""Which combinations of values are run: all of them, or some drawn at random."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.sweep.axes import Axis, flag

MAX_VARIANTS = 10**6


def grid(axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    """Every combination, the last axis fastest. Raises UsageError on an interval, or on more than MAX_VARIANTS."""
    for axis in axes:
        if axis.interval is not None:
            raise UsageError(
                f"{flag(axis.name)} is an interval; accepted: LOW:HIGH:STEP, or, to draw from it, `sweep --random N`"
            )
    count = math.prod(len(axis.values) for axis in axes)
    if count > MAX_VARIANTS:
        raise UsageError(f"{count:,} combinations; accepted: up to {MAX_VARIANTS:,}, or `sweep --random N` of them")
    names = [axis.name for axis in axes]
    return (dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in axes)))


def random_design(axes: Sequence[Axis], count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` combinations, each option drawn by itself. The k-th is the same whatever `count` is.

    Raises UsageError on a `count` or a `seed` out of range.
    """
    if not 1 <= count <= MAX_VARIANTS:
        raise UsageError(f"--random {count}; accepted: 1 to {MAX_VARIANTS:,}")
    if seed < 0:
        raise UsageError(f"--design-seed {seed}; accepted: 0 or more")
    streams = (np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,))) for k in range(count))
    return ({axis.name: axis.draw(rng) for axis in axes} for rng in streams)
