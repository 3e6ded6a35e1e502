"""The result of a replay against a server: what `--json` prints, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagesim.sim.jsontext import rounded
from pagesim.validate.server.experiment import ServerExperiment
from pagesim.validate.server.measured import Measured
from pagesim.validate.server.realtime import RealTime
from pagesim.validate.server.rows import Row, Standing

SCHEMA = "pagesim.validate-server/1"
SHOWN = 5  # requests that something is wrong with


@dataclass(frozen=True, slots=True, eq=False)
class ServerResult:
    """`address`, `model`: of the server. `missing`: metrics that it does not have. `broke_off`: why it is not whole."""

    address: str
    model: str
    source: str
    step_time: str
    experiment: ServerExperiment
    run: RealTime
    measured: Measured
    rows: list[Row]
    missing: list[str]
    broke_off: str | None

    @property
    def agrees(self) -> bool:
        """Whether all is there, every request got what it asked for, and every exact figure is equal."""
        return (
            self.broke_off is None and not self.measured.problems and all(row.agrees is not False for row in self.rows)
        )

    def document(self) -> dict[str, Any]:
        """Plain values by name."""
        config = self.experiment.config
        whole: dict[str, Any] = rounded(
            {
                "schema": SCHEMA,
                "agrees": self.agrees,
                "broke_off": self.broke_off,
                "server": self.address,
                "model": self.model,
                "source": self.source,
                "requests": len(self.experiment.trace),
                "left_out": self.experiment.left_out,
                "speed": self.experiment.speed,
                "trace_sha256": self.experiment.trace.sha256(),
                "step_time": self.step_time,
                "rules": config.as_json(),
                "rows": [row.as_json() for row in self.rows],
                "missing_metrics": self.missing,
                "readings": self.run.readings,
                "answers": self._answers(),
            }
        )
        return whole

    def table(self) -> list[list[str]]:
        """Measured and predicted; the first line is the head."""
        lines = [["", "measured", "predicted", "difference", "comparable", "agrees"]]
        for row in self.rows:
            name = f"{row.name}, {row.unit}" if row.unit else row.name
            agrees = "" if row.agrees is None else "yes" if row.agrees else "NO"
            figures = [_figure(value, row.unit) for value in (row.measured, row.predicted, row.difference)]
            lines.append([name, *figures, row.standing.value, agrees])
        return lines

    def lines(self) -> list[str]:
        """What stands under the table."""
        said = [f"the server has no {name}" for name in self.missing]
        for row, problem in list(self.measured.problems.items())[:SHOWN]:
            said.append(f"request {row}: {problem}")
        if (more := len(self.measured.problems) - SHOWN) > 0:
            said.append(f"and {more} others")
        if self.experiment.left_out:
            said.append(f"{self.experiment.left_out:,} requests do not fit the server and were given to neither side.")
        said.append(
            f"Times are predicted by {self.step_time}: they are worth what that is worth on the server's machine."
        )
        return [*said, self._verdict()]

    def _verdict(self) -> str:
        if self.broke_off is not None:
            return f"It broke off, and what there is stands above: {self.broke_off}"
        if self.agrees:
            return "What must be equal is equal."
        return f"They differ: {', '.join(self._differences())}."

    def _differences(self) -> list[str]:
        return [row.name for row in self.rows if row.standing is Standing.EXACT and row.agrees is False]

    def _answers(self) -> list[dict[str, Any]]:
        """A line for each request; times in seconds from the start."""
        began_s, problems = self.run.began_s, self.measured.problems
        return [
            {
                "request": each.row,
                "due_s": each.due_s,
                "sent_s": each.sent_s,
                "first_token_s": None if each.answer.first_s is None else each.answer.first_s - began_s,
                "last_token_s": None if each.answer.last_s is None else each.answer.last_s - began_s,
                "tokens": each.answer.num_tokens or 0,
                "problem": problems.get(each.row),
            }
            for each in self.run.outcomes
        ]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "share":
        return f"{value:.2%}"
    return f"{value:.4f}" if unit == "s" else f"{value:,.0f}"
