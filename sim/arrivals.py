"""When requests arrive: point processes with a given mean rate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.trace import Floats

ACCEPTED = "poisson, gamma:CV (0.001 to 1000), on-off:ON_S:OFF_S, periodic, batch:SIZE, servegen:FILE"
SERVEGEN = "servegen:"
MIN_CV, MAX_CV = 1e-3, 1e3  # past them the gaps are all alike, or all but one of them 0


class Arrivals(Protocol):
    """A way of spacing requests."""

    def times_s(self, rng: np.random.Generator, count: int, rate_per_s: float) -> Floats:
        """float64 [count], not decreasing, from 0 on: `count` arrivals, `rate_per_s` of them a second in the mean."""
        ...


@dataclass(frozen=True, slots=True)
class Renewal:
    """Independent gamma-distributed gaps of coefficient of variation `cv`: 1 is Poisson, above bursty, 0 periodic."""

    cv: float

    def times_s(self, rng: np.random.Generator, count: int, rate_per_s: float) -> Floats:
        """The first gap comes before the first arrival."""
        if self.cv == 0:
            return np.arange(1, count + 1) / rate_per_s
        if self.cv == 1:
            return np.cumsum(rng.standard_exponential(count)) / rate_per_s
        shape = 1 / self.cv**2
        return np.cumsum(rng.standard_gamma(shape, count)) / (shape * rate_per_s)


@dataclass(frozen=True, slots=True)
class OnOff:
    """Poisson arrivals while on, none while off; both phases last exponentially, `on_s` and `off_s` in the mean."""

    on_s: float
    off_s: float

    def times_s(self, rng: np.random.Generator, count: int, rate_per_s: float) -> Floats:
        """Arrivals in the time that is on, with the off phases then put between them."""
        duty = self.on_s / (self.on_s + self.off_s)
        on_time = np.cumsum(rng.standard_exponential(count)) * duty / rate_per_s
        phases = 16 + int(2 * on_time[-1] / self.on_s)
        ends = np.cumsum(rng.standard_exponential(phases)) * self.on_s
        while ends[-1] < on_time[-1]:
            ends = np.concatenate([ends, ends[-1] + np.cumsum(rng.standard_exponential(phases)) * self.on_s])
        pauses = np.concatenate([[0.0], np.cumsum(rng.standard_exponential(len(ends))) * self.off_s])
        times: Floats = on_time + pauses[np.searchsorted(ends, on_time)]
        return times


@dataclass(frozen=True, slots=True)
class Batches:
    """`size` requests at once, the batches Poisson."""

    size: int

    def times_s(self, rng: np.random.Generator, count: int, rate_per_s: float) -> Floats:
        """The last batch may be short."""
        batches = np.cumsum(rng.standard_exponential(-(-count // self.size))) * self.size / rate_per_s
        return np.repeat(batches, min(self.size, count))[:count]


def parse_arrivals(text: str) -> Arrivals:
    """What the command line calls a process; see ACCEPTED.

    Raises UsageError on anything else, TraceError if a ServeGen file cannot be read.
    """
    if text.startswith(SERVEGEN):
        from pagesim.sim.rate_windows import RateWindows
        from pagesim.sim.servegen import read_servegen

        return RateWindows(read_servegen(Path(text.removeprefix(SERVEGEN))))
    kind, *numbers = text.split(":")
    try:
        values = [float(number) for number in numbers]
        if not all(0 < value < float("inf") for value in values):
            raise ValueError
        if kind == "poisson" and not values:
            return Renewal(1)
        if kind == "periodic" and not values:
            return Renewal(0)
        if kind == "gamma":
            (cv,) = values
            if MIN_CV <= cv <= MAX_CV:
                return Renewal(cv)
        if kind == "on-off":
            on_s, off_s = values
            return OnOff(on_s, off_s)
        if kind == "batch":
            return Batches(*map(int, numbers))
    except (TypeError, ValueError):
        pass
    raise UsageError(f"arrivals '{text}'; accepted: {ACCEPTED}")
