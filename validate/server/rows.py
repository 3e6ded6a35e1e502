"""Measured and predicted, figure by figure, and which of them must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pagesim.validate.server.experiment import ServerExperiment
from pagesim.validate.server.measured import Measured
from pagesim.validate.server.metrics import GENERATED, HITS, PREEMPTIONS, QUERIES, RUNNING, USAGE
from pagesim.validate.server.prediction import Prediction

Number = float | None


class Standing(Enum):
    """EXACT figures must be equal, and decide. The others hang on the step times, or stand alone."""

    EXACT = "exact"
    GIVEN_STEP_TIMES = "given the step times"
    MEASURED_ALONE = "measured alone"


@dataclass(frozen=True, slots=True)
class Row:
    """None: it was not measured, or nothing was predicted."""

    name: str
    unit: str
    measured: Number
    predicted: Number
    standing: Standing

    @property
    def difference(self) -> Number:
        """Measured less predicted."""
        return None if self.measured is None or self.predicted is None else self.measured - self.predicted

    @property
    def agrees(self) -> bool | None:
        """Whether an exact figure is equal; None for all others, and where either side is missing."""
        if self.standing is not Standing.EXACT or self.difference is None:
            return None
        return self.difference == 0

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "name": self.name, "unit": self.unit, "measured": self.measured, "predicted": self.predicted,
            "difference": self.difference, "standing": self.standing.value, "agrees": self.agrees,
        }  # fmt: skip


def rows(
    experiment: ServerExperiment,
    said_tokens: int | None,
    told_tokens: int | None,
    measured: Measured,
    highest: dict[str, float],
    predicted: Prediction,
) -> list[Row]:
    """All there are. `said_tokens`: the capacity by the server's own word. `told_tokens`: that
    which was expected beforehand. `highest`: of the gauges, as far as they were read."""
    exact, given, alone = Standing.EXACT, Standing.GIVEN_STEP_TIMES, Standing.MEASURED_ALONE
    config, trace, totals, moved = experiment.config, experiment.trace, predicted.totals, measured.moved
    wanted = int(trace.output_tokens.sum())
    usage = round(highest[USAGE] * config.usable_blocks) if USAGE in highest else None
    return [
        Row("capacity", "tokens", said_tokens, told_tokens, exact),
        Row("requests with all their tokens", "", len(trace) - len(measured.problems), len(trace), exact),
        Row("tokens that came", "", measured.tokens, wanted, exact),
        Row("tokens that the server counts", "", moved.get(GENERATED), wanted, exact),
        Row("preemptions", "", moved.get(PREEMPTIONS), totals["preemptions"], given),
        Row("hit rate", "share", _rate(moved.get(HITS), moved.get(QUERIES)),
            _rate(totals["prefix_hits_first"], totals["prefix_queries_first"]), given),
        Row("most running, of what was read", "", highest.get(RUNNING), totals["peak_running"], given),
        Row("most blocks used, of what was read", "", usage, totals["peak_blocks_used"], given),
        *_latencies("TTFT", measured.ttft, predicted.ttft),
        *_latencies("TPOT", measured.tpot, predicted.tpot),
        Row("all done after", "s", measured.duration_s, predicted.duration_s, given),
        Row("sent late, at most", "s", measured.late_s, None, alone),
    ]  # fmt: skip


def _latencies(name: str, measured: Any, predicted: Any) -> Iterator[Row]:
    for figure in ("mean", "p50", "p90", "p99"):
        pair = getattr(measured, figure), getattr(predicted, figure)
        yield Row(f"{name} {figure}", "s", *pair, Standing.GIVEN_STEP_TIMES)


def _rate(found: Number, asked: Number) -> Number:
    return None if found is None or not asked else found / asked
