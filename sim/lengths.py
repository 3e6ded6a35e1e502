"""Distributions of a length: over whole numbers of tokens.

Every distribution is a finite table of values and probabilities. So one way of drawing (invert the cumulative sum)
serves them all, and means and second moments are sums, exact to rounding, not estimates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.trace import Floats, Ints

Truncation = Literal["clip", "resample"]
MAX_LENGTH = 2**24  # tokens: a table has a row for each length
NOTE_CONTEXT = 2048  # tokens: the note's server permits no longer sequence


def weighted_sum(values: Ints | Floats, weights: Floats) -> float:
    """The sum of values * weights, rounded once: a dot product's last bit depends on the processor."""
    return math.fsum(values * weights)


@dataclass(frozen=True, slots=True, eq=False)
class LengthDistribution:
    """P(length = values[k]) = probabilities[k].

    `values`: int64 [k], increasing, >= 1, tokens. `probabilities`: float64 [k], sum 1. `label` says in words what it
    is, truncation included.
    """

    values: Ints
    probabilities: Floats
    label: str

    @property
    def mean(self) -> float:
        """E[length], tokens."""
        return weighted_sum(self.values, self.probabilities)

    @property
    def second_moment(self) -> float:
        """E[length^2], tokens^2."""
        return weighted_sum(self.values.astype(np.float64) ** 2, self.probabilities)

    @property
    def median(self) -> int:
        """The least length that at least half of the probability does not pass."""
        return int(self.values[np.searchsorted(np.cumsum(self.probabilities), 0.5)])

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """`count` independent lengths, int64 [count]."""
        cumulative = np.cumsum(self.probabilities)
        index = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        drawn: Ints = self.values[np.minimum(index, len(self.values) - 1)]
        return drawn


def lognormal(
    mean: float, median: float, low: int, high: int, truncation: Truncation, label: str | None = None
) -> LengthDistribution:
    """Lognormal by its mean and median before truncation, rounded to whole tokens.

    sigma = sqrt(2 ln(mean / median)), mu = ln(median). What falls outside [low, high] is set to the nearer end
    ("clip") or drawn again ("resample"). Raises UsageError unless 0 < median < mean and 1 <= low <= high.
    """
    from scipy.special import ndtr

    if not (0 < median < mean and 1 < mean / median < math.inf):
        raise UsageError(f"lognormal mean {mean:g}, median {median:g}; accepted: 0 < median < mean")
    _check_bounds(low, high)
    values = np.arange(low, high + 1)
    edges = np.concatenate([[-np.inf], np.log(values[:-1] + 0.5), [np.inf]])
    if truncation == "resample":
        edges[0], edges[-1] = (math.log(low - 0.5), math.log(high + 0.5))
    mass = np.diff(ndtr((edges - math.log(median)) / math.sqrt(2 * math.log(mean / median))))
    if not mass.sum() > 0:
        raise UsageError(f"lognormal mean {mean:g}, median {median:g} has nothing between {low} and {high} tokens")
    how = "clipped" if truncation == "clip" else "drawn again if outside"
    words = label or f"lognormal, mean {mean:g}, median {median:g}, {how} [{low}, {high}]"
    return LengthDistribution(values, mass / mass.sum(), words)


def uniform(low: int, high: int) -> LengthDistribution:
    """Every length from low to high, both included, alike. Raises UsageError unless 1 <= low <= high."""
    _check_bounds(low, high)
    size = high - low + 1
    return LengthDistribution(np.arange(low, high + 1), np.full(size, 1 / size), f"uniform [{low}, {high}]")


def fixed(tokens: int) -> LengthDistribution:
    """Always the same length. Raises UsageError if it is under 1."""
    _check_bounds(tokens, tokens)
    return LengthDistribution(np.array([tokens]), np.array([1.0]), f"always {tokens}")


def empirical(lengths: Ints, label: str) -> LengthDistribution:
    """As often as each length occurs in a list. Raises UsageError on an empty list or a length under 1."""
    if len(lengths) == 0 or int(lengths.min()) < 1:
        raise UsageError(f"{label}: lengths must be 1 or more, and at least one")
    values, counts = np.unique(lengths, return_counts=True)
    return LengthDistribution(values, counts / len(lengths), label)


def parse_lengths(text: str, high: int, truncation: Truncation) -> LengthDistribution:
    """What the command line calls a distribution: `lognormal:MEAN:MEDIAN`, `uniform:LOW:HIGH` or `fixed:TOKENS`.

    `high` and `truncation` bound the lognormal. Raises UsageError on anything else.
    """
    kind, *numbers = text.split(":")
    try:
        if kind == "lognormal":
            mean, median = map(float, numbers)
            return lognormal(mean, median, 1, high, truncation)
        if kind == "uniform":
            return uniform(*map(int, numbers))
        if kind == "fixed":
            return fixed(*map(int, numbers))
    except (TypeError, ValueError):
        pass
    raise UsageError(f"lengths '{text}'; accepted: lognormal:MEAN:MEDIAN, uniform:LOW:HIGH, fixed:TOKENS")


def _check_bounds(low: int, high: int) -> None:
    if not 1 <= low <= high <= MAX_LENGTH:
        raise UsageError(f"lengths from {low} to {high}; accepted: 1 <= low <= high <= {MAX_LENGTH}")


def note_lengths(high: int = NOTE_CONTEXT) -> LengthDistribution:
    """The note's lengths: lognormal, mean 260, median 180, clipped to [1, high]: mostly short with a long tail."""
    return lognormal(260, 180, 1, high, "clip")
