"""Arrivals whose rate and burstiness change from window to window, as a ServeGen client's do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.trace import Floats

if TYPE_CHECKING:  # what reads a file loads pyarrow, which a run of drawn requests does without
    from pagesim.sim.servegen import ServeGenWindows

WINDOW_S = 600.0
MAX_PASSES = 10_000
LEAST_SHAPE = 1e-4  # below it nearly all gaps are zero


@dataclass(frozen=True, slots=True)
class RateWindows:
    """In each window, independent gaps of the window's own rate and distribution; after the last window, the first.

    Raises UsageError if no window has any arrivals.
    """

    windows: ServeGenWindows

    def __post_init__(self) -> None:
        if not self.windows.rate_per_s.any():
            raise UsageError("every window has rate 0; accepted: a client that sends something")
        shapes = self.windows.a[self.windows.rate_per_s > 0]
        if not ((shapes >= LEAST_SHAPE) & (shapes <= 1 / LEAST_SHAPE)).all():
            raise UsageError(
                f"a window's shape is {shapes.min():g} to {shapes.max():g}; accepted: {LEAST_SHAPE:g} to "
                f"{1 / LEAST_SHAPE:g}"
            )

    @property
    def mean_rate_per_s(self) -> float:
        """The file's own mean rate, idle windows included."""
        return float(self.windows.rate_per_s.mean())

    @property
    def span_s(self) -> float:
        """How long all windows last."""
        return len(self.windows) * WINDOW_S

    def times_s(self, rng: np.random.Generator, count: int, rate_per_s: float) -> Floats:
        """Every window's rate is scaled so that the mean is `rate_per_s`; windows keep their length."""
        scale = rate_per_s / self.mean_rate_per_s
        if count > MAX_PASSES * self.span_s * rate_per_s:
            raise UsageError(f"{count:,} requests at {rate_per_s:g}/s go through all windows over {MAX_PASSES:,} times")
        parts: list[Floats] = []
        missing, begin_s = count, 0.0
        while missing > 0:
            for window in range(len(self.windows)):
                times_s = self._window(rng, window, scale)
                parts.append(begin_s + times_s[:missing])
                missing -= len(parts[-1])
                begin_s += WINDOW_S
                if missing <= 0:
                    break
        return np.concatenate(parts)

    def _window(self, rng: np.random.Generator, window: int, scale: float) -> Floats:
        """Arrivals within one window, from its start; the gap that crosses its end is cut off."""
        rate = float(self.windows.rate_per_s[window]) * scale
        if rate == 0:
            return np.empty(0)
        times = np.empty(0)
        while len(times) == 0 or times[-1] < WINDOW_S:
            gaps = self._unit_gaps(rng, window, 16 + int(1.1 * rate * WINDOW_S)) / rate
            times = np.concatenate([times, (times[-1] if len(times) else 0.0) + np.cumsum(gaps)])
        return times[times < WINDOW_S]

    def _unit_gaps(self, rng: np.random.Generator, window: int, count: int) -> Floats:
        """Gaps of mean 1, in the window's distribution: a is its shape."""
        from scipy.special import gamma

        shape = float(self.windows.a[window])
        if self.windows.kind[window] == "weibull":
            gaps: Floats = rng.weibull(shape, count) / gamma(1 + 1 / shape)
            return gaps
        return rng.standard_gamma(shape, count) / shape
