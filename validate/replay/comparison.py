"""The two logs beside each other, step by step, exactly; and the first place where they part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.log import CLOCK, ReplayLog, ReplayStep
from pagesim.validate.replay.state import State

COLUMNS = ("running", "waiting", "scheduled_tokens", "blocks_used", "admitted", "preempted", "finished")
CLOCKS = ("start_s", "duration_s")
FROM_ROWS = ("steps", "preemptions", "peak_blocks_used", "peak_running")  # totals that the steps say already


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first step in which the logs differ, by `columns`; a side is None if its log has ended.

    `before`: the last step on which they agree. The states are of that step, None where a side could not be asked.
    """

    number: int
    columns: tuple[str, ...]
    simulator: ReplayStep | None
    engine: ReplayStep | None
    before: ReplayStep | None
    simulator_state: State | None = None
    engine_state: State | None = None

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain values; requests by name."""
        steps = {"simulator": self.simulator, "engine": self.engine, "before": self.before}
        states = {"simulator": self.simulator_state, "engine": self.engine_state}
        return {
            "step": self.number,
            "columns": list(self.columns),
            **{side: None if step is None else step.as_json(names) for side, step in steps.items()},
            "states": {
                side: None if state is None else [[names[row], computed] for row, computed in state]
                for side, state in states.items()
            },
        }


def first_divergence(simulator: ReplayLog, engine: ReplayLog) -> Divergence | None:
    """None if every step agrees: exactly, but for the clock, which may differ by CLOCK."""
    for number in range(max(len(simulator.steps), len(engine.steps))):
        ours, theirs = _at(simulator, number), _at(engine, number)
        columns = ("steps",) if ours is None or theirs is None else _different(ours, theirs)
        if columns:
            return Divergence(number, columns, ours, theirs, _at(simulator, number - 1) if number else None)
    return None


def different_outside_steps(simulator: ReplayLog, engine: ReplayLog, experiment: Experiment) -> Iterator[str]:
    """Who was turned away on arrival, and sums that no step shows; a line for each difference."""
    for row in sorted(simulator.rejected ^ engine.rejected):
        who, other = ("simulator", "engine") if row in simulator.rejected else ("engine", "simulator")
        yield f"the {who} turns {experiment.names[row]} away on arrival, and the {other} serves it"
    for name, ours in simulator.totals.items():
        theirs = engine.totals[name]
        if name not in FROM_ROWS and ours != theirs:
            yield f"{name.replace('_', ' ')}: {ours} by the simulator, {theirs} by the engine"


def _different(ours: ReplayStep, theirs: ReplayStep) -> tuple[str, ...]:
    clocks = [name for name in CLOCKS if not _same_time(getattr(ours, name), getattr(theirs, name))]
    return (*clocks, *(name for name in COLUMNS if getattr(ours, name) != getattr(theirs, name)))


def _same_time(ours: float, theirs: float) -> bool:
    return math.isclose(ours, theirs, rel_tol=CLOCK, abs_tol=CLOCK)


def _at(log: ReplayLog, number: int) -> ReplayStep | None:
    return log.steps[number] if number < len(log.steps) else None
