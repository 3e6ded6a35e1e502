"""What came of serving a trace in real time and simulating it: both sides' figures, at each load."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pagesim.validate.calibrate.calibration import Calibration
from pagesim.validate.realtime.figures import Figures, errors


@dataclass(frozen=True, slots=True)
class Machine:
    """`slowness_before`, `slowness_after`: how long the calibration's held-out loads took just before and after the
    run, over what they took in the calibration. `cpu_share`: processors kept busy while the engine had work.
    """

    slowness_before: float
    slowness_after: float
    cpu_share: float


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The trace at `load` times the rate of the knee.

    `steps_error`: what the model says of the steps that the engine made, over what these took, less 1: how far off step
    times alone are, before a queue makes more of it.
    """

    load: float
    rate_per_s: float
    engine: Figures
    simulator: Figures
    steps_error: float
    machine: Machine

    @property
    def where(self) -> str:
        """Of the knee."""
        return "at the knee" if self.load == 1 else f"{'below' if self.load < 1 else 'above'} the knee"

    @property
    def errors(self) -> dict[str, float | None]:
        """Simulated over measured, less 1."""
        return errors(self.simulator, self.engine)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "load": self.load,
            "where": self.where,
            "rate_per_s": self.rate_per_s,
            "engine": self.engine.as_json(),
            "simulator": self.simulator.as_json(),
            "errors": self.errors,
            "steps_error": self.steps_error,
            "machine": asdict(self.machine),
        }


@dataclass(frozen=True, slots=True, eq=False)
class TimeComparison:
    """`calibration`: what the simulator was told, fitted on loads of its own. `knee_per_s`: requests a second."""

    calibration: Calibration
    knee_per_s: float
    requests: int
    runs: tuple[Run, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "calibration": self.calibration.as_json(),
            "knee_requests_per_s": self.knee_per_s,
            "requests": self.requests,
            "runs": [run.as_json() for run in self.runs],
        }
