"""Means over independent replications, with Student's 95% interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the ends of its 95% confidence interval: None where one run gives no spread."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def half(self) -> float | None:
        """Half of its width, where no end was cut off; of the longer side where one was."""
        return None if self.low is None or self.high is None else max(self.high - self.mean, self.mean - self.low)

    def as_json(self) -> dict[str, float | None]:
        """The three numbers by name."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


def interval(values: Sequence[float]) -> Interval:
    """mean +- t(n - 1) * s / sqrt(n), for n independent values with sample deviation s."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean)
    from scipy.special import stdtrit

    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(count)
    return Interval(mean, mean - half, mean + half)


def amount(values: Sequence[float], most: float = math.inf) -> Interval:
    """The interval of what is never below 0, nor above `most`: its ends stay within these."""
    whole = interval(values)
    if whole.low is None or whole.high is None:
        return whole
    return Interval(whole.mean, max(whole.low, 0.0), min(whole.high, most))


def share(values: Sequence[float]) -> Interval:
    """The interval of a share: its ends stay within 0 and 1."""
    return amount(values, 1.0)
