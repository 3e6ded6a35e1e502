"""The steps of a run in real time, and what each took: from the end of the one before, or of a sleep, to its own."""

from __future__ import annotations

from collections.abc import Callable

from pagesim.engine.step import Step
from pagesim.sim.serving.steptime import StepTime
from pagesim.validate.calibrate.shape import Shape
from pagesim.validate.calibrate.timing import Timer


class StepTimes:
    """Its `note` is the engine's `on_step`, and passes every step on to a timer."""

    def __init__(self, timer: Timer, clock: Callable[[], float]) -> None:
        self._timer, self._clock = timer, clock
        self._last_s: float | None = None
        self._steps: list[tuple[Step, float]] = []

    def note(self, step: Step, finished: object, t_s: float) -> None:
        """A step is done."""
        self._timer.note(step, finished, t_s)
        if self._last_s is not None:
            now_s = self._clock()
            self._steps.append((step, now_s - self._last_s))
            self._last_s = now_s

    def begin(self) -> None:
        """From now on they count."""
        self._steps, self._last_s = [], self._clock()

    def resume(self) -> None:
        """The time since the last step was idle."""
        self._last_s = self._clock()

    def end(self) -> None:
        """No more count."""
        self._last_s = None

    @property
    def measured_s(self) -> float:
        """All steps together."""
        return sum(seconds for _, seconds in self._steps)

    def modelled_s(self, step_time: StepTime) -> float:
        """The same steps, as a model has them."""
        return sum(Shape.of(step).seconds(step_time) for step, _ in self._steps)
