"""The logical half of a replay: two sides' schedules on one virtual clock, and what is found on comparing them.

One is the simulator. The other is whatever a Machine drives: by default the engine's scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

import numpy as np

from pagesim.engine.step import Step
from pagesim.validate.replay.comparison import Divergence, different_outside_steps, first_divergence
from pagesim.validate.replay.drive import Driver, OnStep
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.invariants import broken_rules
from pagesim.validate.replay.log import ReplayLog
from pagesim.validate.replay.machine import Machine, scheduler_alone
from pagesim.validate.replay.simulated import Simulated, simulate
from pagesim.validate.replay.state import State, simulated_state, state

OnProgress = Callable[[int], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Logical:
    """`simulated` and `other` are None where that side broke off. `findings`: what is wrong, a line each.

    `side`: what the other side is called. `not_offered`: requests that no side was given, because the other would cut
    their answers.
    """

    experiment: Experiment
    side: str
    simulated: Simulated | None
    other: ReplayLog | None
    divergence: Divergence | None
    findings: tuple[str, ...]
    not_offered: int

    @property
    def agrees(self) -> bool:
        """Whether every step, and every sum, is the same, and nobody broke a rule."""
        return self.divergence is None and not self.findings

    @property
    def steps_that_agree(self) -> int:
        """From the first on."""
        if self.divergence is not None:
            return self.divergence.number
        return 0 if self.other is None else len(self.other.steps)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        logs = {"simulator": None if self.simulated is None else self.simulated.replay, self.side: self.other}
        return {
            "agrees": self.agrees,
            "steps": {side: None if log is None else len(log.steps) for side, log in logs.items()},
            "steps_that_agree": self.steps_that_agree,
            "findings": list(self.findings),
            "divergence": None if self.divergence is None else self.divergence.as_json(self.experiment.names),
            "rejected": {side: None if log is None else len(log.rejected) for side, log in logs.items()},
            "not_offered": self.not_offered,
            "totals": {side: None if log is None else dict(log.totals) for side, log in logs.items()},
        }


def replay_logically(
    experiment: Experiment,
    on_progress: OnProgress = lambda requests: None,
    make_machine: Callable[[Experiment], Machine] = scheduler_alone,
) -> Logical:
    """The simulator, then the other side without a model. `on_progress`: requests that finished on a side.

    Raises UsageError and EngineError on what cannot be replayed.
    """
    machine = make_machine(experiment)
    simulated = _unless_broken(lambda: simulate(experiment, on_progress))
    found = compare(experiment, simulated, machine, on_progress=on_progress)
    if found.divergence is None or found.simulated is None:
        return found
    number = found.divergence.number
    ours = _unless_broken(lambda: _simulated_state(found.simulated, number))
    theirs = _unless_broken(lambda: _other_state(make_machine(experiment), found.simulated, number))
    divergence = replace(
        found.divergence,
        simulator_state=None if isinstance(ours, str) else ours,
        other_state=None if isinstance(theirs, str) else theirs,
    )
    return replace(found, divergence=divergence)


def compare(
    experiment: Experiment,
    simulated: Simulated | str,
    machine: Machine,
    on_scheduled: OnStep = lambda step: None,
    on_computed: OnStep = lambda step: None,
    on_progress: OnProgress = lambda requests: None,
) -> Logical:
    """Take `machine` through the experiment and put its log beside what was simulated. A str: how that broke off."""
    findings = []
    starts_s = np.empty(0)
    if isinstance(simulated, str):
        findings.append(f"simulator: broke off, {simulated}")
    else:
        starts_s = np.array([step.start_s for step in simulated.replay.steps])
    driver = Driver(machine, starts_s, on_scheduled, on_computed, on_progress)
    other = _unless_broken(driver.run)
    if isinstance(other, str):
        findings.append(f"{machine.side}: broke off in step {len(driver.steps)}, {other}")
    ours = None if isinstance(simulated, str) else simulated
    theirs = None if isinstance(other, str) else other
    for log in (None if ours is None else ours.replay, theirs):
        if log is not None:
            findings += broken_rules(log, experiment)
    divergence = None
    if ours is not None:
        written = theirs or ReplayLog(machine.side, driver.steps, frozenset(), {})
        divergence = first_divergence(ours.replay, written)
        if theirs is not None:
            findings += different_outside_steps(ours.replay, theirs, experiment)
    too_long = len(experiment.samples) - experiment.offered
    return Logical(experiment, machine.side, ours, theirs, divergence, tuple(findings), too_long)


def _unless_broken(run: Callable[[], T]) -> T | str:
    """What `run` gives, or in a line which invariant of its own it broke, and where."""
    try:
        return run()
    except (AssertionError, ArithmeticError, LookupError, RuntimeError, ValueError) as error:
        line = str(error).partition("\n")[0]
        *_, last = walk_tb(error.__traceback__)
        place = f"{Path(last[0].f_code.co_filename).name}:{last[1]}"
        return f"{type(error).__name__} in {place}{f': {line}' if line else ''}"


def _simulated_state(simulated: Simulated | None, number: int) -> State:
    assert simulated is not None
    return simulated_state(simulated.log, simulated.replay, number)


def _other_state(machine: Machine, simulated: Simulated | None, number: int) -> State:
    """Once more from the start up to that step, which is the same each time."""
    assert simulated is not None
    states: list[State] = []

    def note(step: Step) -> None:
        states[:] = [state(step, machine.scheduler)]

    Driver(machine, np.array([step.start_s for step in simulated.replay.steps]), note).run(number + 1)
    return states[0]
