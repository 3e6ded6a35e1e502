"""A calibration: rows of whatever source, the model fitted on one part of them, and what it leaves on the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.fit import Measurement
from pagesim.sim.experiments.profile import SCHEMA as PROFILE_SCHEMA
from pagesim.sim.experiments.profile import SPLIT_FORM, HeldOut, Profile
from pagesim.sim.experiments.row import Standing
from pagesim.sim.experiments.work import Work
from pagesim.sim.files import write_text
from pagesim.sim.jsontext import dumps, rounded
from pagesim.sim.serving.steptime import LinearStep
from pagesim.validate.calibrate.fit import Residuals, fit_step_time, residuals
from pagesim.validate.calibrate.noise import Noise
from pagesim.validate.calibrate.shape import BatchTime

SCHEMA = "pagesim.calibration/1"
FIGURE = "calibration"
MEDIAN = "Times are medians over the repeats of a batch."


@dataclass(frozen=True, slots=True)
class Group:
    """Batches that were measured together: their work, and their seconds as measured and as modelled."""

    name: str
    held_out: bool
    work: Work
    measured_s: float
    modelled_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """`fitted`, `held_out`: residuals of `step_time` on either part. `one_price`: those of the held-out part under
    the form of the profile that is shipped, which charges twice a pair for each context and nothing for a prefill;
    None where that form leaves a step no base time.
    `noise`: None where the rows were read.
    """

    measured_on: str
    source: str
    step_time: LinearStep
    fitted: Residuals
    held_out: Residuals
    one_price: Residuals | None
    groups: tuple[Group, ...]
    noise: Noise | None

    def profile(self, name: str) -> Profile:
        """What `--step-time` takes."""
        fitted_on = [Measurement(FIGURE, g.name, g.measured_s, g.work) for g in self.groups if not g.held_out]
        held_out = [
            HeldOut(FIGURE, g.name, "s", (g.measured_s,), g.modelled_s, Standing.HELD_OUT.value)
            for g in self.groups
            if g.held_out
        ]
        return Profile(
            PROFILE_SCHEMA, name, self.measured_on, SPLIT_FORM, self.step_time, tuple(fitted_on), tuple(held_out),
            tuple(self._assumed()),
        )  # fmt: skip

    def document(self, profile: Path) -> dict[str, Any]:
        """What `--json` prints; `profile`: where it was written."""
        whole: dict[str, Any] = rounded({"schema": SCHEMA, "profile": str(profile), **self.as_json()})
        return whole

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "measured_on": self.measured_on,
            "source": self.source,
            "form": SPLIT_FORM,
            "coefficients": asdict(self.step_time),
            "fitted": asdict(self.fitted),
            "held_out": asdict(self.held_out),
            "held_out_in_t4_form": None if self.one_price is None else asdict(self.one_price),
            "groups": [asdict(group) for group in self.groups],
            "noise": None if self.noise is None else asdict(self.noise),
        }

    def _assumed(self) -> Iterator[str]:
        yield f"{self.source}. {MEDIAN}"
        yield (
            f"Fitted on {self.fitted.rows} batches; on {self.held_out.rows} others, held out: {_words(self.held_out)}."
        )
        if self.noise is not None:
            yield self.noise.words


def calibrate(times: Sequence[BatchTime], measured_on: str, source: str, noise: Noise | None = None) -> Calibration:
    """Fit on the rows that are not held out. Raises UsageError if that part, or the other, is not enough."""
    fitting = [time for time in times if not time.held_out]
    others = [time for time in times if time.held_out]
    if not others:
        raise UsageError(f"{len(times)} rows and none held out; accepted: rows to fit on, and others to test that on")
    step_time = fit_step_time(fitting)
    return Calibration(
        measured_on, source, step_time, residuals(fitting, step_time), residuals(others, step_time),
        _in_one_price(fitting, others), tuple(_groups(times, step_time)), noise,
    )  # fmt: skip


def _in_one_price(fitting: Sequence[BatchTime], others: Sequence[BatchTime]) -> Residuals | None:
    """What is shown beside a fit must not stand in its way."""
    try:
        return residuals(others, fit_step_time(fitting, split=False))
    except UsageError:
        return None


def write_profile(profile: Profile, path: Path) -> None:
    """Whole or not at all. Raises UsageError if it cannot be written."""
    write_text(path, dumps(profile.as_json()) + "\n")


def _groups(times: Sequence[BatchTime], step_time: LinearStep) -> Iterator[Group]:
    members: dict[str, list[BatchTime]] = {}
    for time in times:
        members.setdefault(time.group, []).append(time)
    for name, each in members.items():
        works = [time.shape.work for time in each]
        work = Work(*(sum(getattr(w, field) for w in works) for field in Work.__dataclass_fields__))
        measured_s = sum(time.seconds for time in each)
        modelled_s = sum(time.shape.seconds(step_time) for time in each)
        yield Group(name, each[0].held_out, work, measured_s, modelled_s)


def _words(found: Residuals) -> str:
    r2 = "no R^2" if found.r2 is None else f"R^2 {found.r2:.4f}"
    return (
        f"{r2}, time of all together {found.total:+.1%}, of a single one off by {found.median_error:.1%} in the median "
        f"and {found.p90_error:.1%} in nine of ten"
    )
