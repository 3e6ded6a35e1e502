"""Lengths of which only the mean is published: a shape, and a spread, scaled until the mean is met.

What is known of the cut is public: the benchmark scripts that came with the first vLLM keep prompts of 4 to 1,024
tokens, answers of 4 or more, and pairs of 2,048 or less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.lengths import LengthDistribution, lognormal

SHORTEST, LONGEST_PROMPT, LONGEST_PAIR = 4, 1024, 2048
Scaled = Callable[[float, int], LengthDistribution]  # (scale, longest) -> lengths from SHORTEST to longest


@dataclass(frozen=True, slots=True)
class Shape:
    """A family of distributions that differ by a factor; `label` names it with its spread."""

    label: str
    scaled: Scaled

    def with_mean(self, mean: float, longest: int) -> LengthDistribution:
        """The one of this mean, tokens, after the cut at SHORTEST and `longest`. Raises UsageError if there is none."""
        low, high = 1.0, 1e4 * longest
        for _ in range(64):
            scale = math.sqrt(low * high)
            low, high = (scale, high) if self.scaled(scale, longest).mean < mean else (low, scale)
        found = self.scaled(math.sqrt(low * high), longest)
        if not math.isclose(found.mean, mean, rel_tol=1e-6):
            raise UsageError(f"lengths {self.label}, {SHORTEST} to {longest} tokens: no scale has the mean {mean:g}")
        return found


def lognormal_shape(sigma: float) -> Shape:
    """Lognormal: the logarithm is normal with this standard deviation; the scale is the median."""

    def scaled(median: float, longest: int) -> LengthDistribution:
        return lognormal(median * math.exp(sigma**2 / 2), median, SHORTEST, longest, "resample")

    return Shape(f"lognormal, sigma {sigma:g}", scaled)


def gamma_shape(shape: float) -> Shape:
    """Gamma: more of the middle and less of the far tail than a lognormal of the same first two moments."""

    def scaled(scale: float, longest: int) -> LengthDistribution:
        from scipy.special import gammainc

        values = np.arange(SHORTEST, longest + 1)
        edges = np.concatenate([[SHORTEST - 0.5], values + 0.5])
        mass = np.diff(gammainc(shape, edges / scale))
        return LengthDistribution(values, mass / mass.sum(), f"gamma, shape {shape:g}, scale {scale:g}")

    return Shape(f"gamma, shape {shape:g}", scaled)


def biased_mean(lengths: LengthDistribution) -> float:
    """E[L^2] / E[L], tokens: the mean of what is running when a request runs as long as it is long."""
    return lengths.second_moment / lengths.mean
