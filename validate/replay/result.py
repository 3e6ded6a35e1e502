"""The result of a replay: what `--json` prints. One section for each thing that is compared; None: it was not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagesim.sim.jsontext import rounded
from pagesim.validate.realtime.result import TimeComparison
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.logical import Logical
from pagesim.validate.replay.physical import Physical

SCHEMA = "pagesim.replay/1"


@dataclass(frozen=True, slots=True, eq=False)
class ReplayResult:
    """`source`: where the requests come from, in words; `step_time`: the form that both sides were told.

    `logical`: the two schedules on one virtual clock. `physical`: the same with a model, and the pool as it really was.
    `time`: the same trace in real time; times are never equal, and have no say in whether the two agree.
    """

    source: str
    step_time: str
    experiment: Experiment
    logical: Logical
    physical: Physical | None
    time: TimeComparison | None = None

    @property
    def agrees(self) -> bool:
        """Whether everything that was compared does."""
        return self.logical.agrees and (self.physical is None or self.physical.agrees)

    def document(self) -> dict[str, Any]:
        """Plain values by name."""
        trace = self.experiment.trace
        whole: dict[str, Any] = rounded(
            {
                "schema": SCHEMA,
                "agrees": self.agrees,
                "source": self.source,
                "requests": len(self.experiment.samples),
                "trace_sha256": trace.sha256(),
                "step_time": self.step_time,
                "rules": self.experiment.config.as_json(),
                "blocks_used_unit": self.experiment.unit,
                "logical": self.logical.as_json(),
                "physical": None if self.physical is None else self.physical.as_json(),
                "time": None if self.time is None else self.time.as_json(),
            }
        )
        return whole
