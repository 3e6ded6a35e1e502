"""What both sides tell of a run in real time: throughput, and latencies of its requests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.trace import Floats

if TYPE_CHECKING:
    from pagesim.validate.load import LoadLog

LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
QUANTILES = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """`span_s`: from the first arrival to the last token. Latencies of the requests that have them, float64 seconds:
    TTFT and E2E from arrival, TPOT = (last token - first) / (tokens - 1).
    """

    span_s: float
    output_tokens_per_s: float
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats

    @classmethod
    def of_engine(cls, log: LoadLog) -> Figures:
        """Of a load in real time."""
        latencies = (np.array(getattr(log, name)) for name in LATENCIES)
        return cls(log.duration_s, log.output_tokens / log.duration_s, *latencies)

    @classmethod
    def of_simulator(cls, log: ServingLog) -> Figures:
        """Of a log in which nobody was rejected."""
        span_s = log.end_s - float(log.arrival_s[0])
        gaps = log.output_tokens - 1
        several = gaps > 0
        return cls(
            span_s,
            int(log.output_tokens.sum()) / span_s,
            log.first_token_s - log.arrival_s,
            (log.finish_s - log.first_token_s)[several] / gaps[several],
            log.finish_s - log.arrival_s,
        )

    def values(self) -> dict[str, float | None]:
        """The figures that are compared, by name: `output_tokens_per_s`, and like `ttft_s.p50`. None: nobody has it."""
        found: dict[str, float | None] = {"output_tokens_per_s": self.output_tokens_per_s}
        for name in LATENCIES:
            distribution = self._distribution(name)
            found |= {f"{name}.{quantile}": getattr(distribution, quantile) for quantile in QUANTILES}
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "span_s": self.span_s,
            "output_tokens_per_s": self.output_tokens_per_s,
            **{name: asdict(self._distribution(name)) for name in LATENCIES},
        }

    def _distribution(self, name: str) -> Distribution:
        return Distribution.of(getattr(self, name), len(self.e2e_s) - len(getattr(self, name)))


def errors(simulator: Figures, engine: Figures) -> dict[str, float | None]:
    """Simulated over measured, less 1, by the names of `Figures.values`. None where a side has no such figure."""
    measured = engine.values()
    return {
        name: None if value is None or not measured[name] else value / float(measured[name] or 0) - 1
        for name, value in simulator.values().items()
    }
