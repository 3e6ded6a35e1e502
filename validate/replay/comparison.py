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

    `side`: what the other side is called. `before`: the last step on which they agree. The states are of step `number`,
    None where a side could not be asked.
    """

    number: int
    columns: tuple[str, ...]
    side: str
    simulator: ReplayStep | None
    other: ReplayStep | None
    before: ReplayStep | None
    simulator_state: State | None = None
    other_state: State | None = None

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain values; requests by name."""
        steps = {"simulator": self.simulator, self.side: self.other, "before": self.before}
        states = {"simulator": self.simulator_state, self.side: self.other_state}
        return {
            "step": self.number,
            "columns": list(self.columns),
            **{side: None if step is None else step.as_json(names) for side, step in steps.items()},
            "states": {
                side: None if state is None else [[names[row], computed] for row, computed in state]
                for side, state in states.items()
            },
        }


def first_divergence(simulator: ReplayLog, other: ReplayLog) -> Divergence | None:
    """None if every step agrees: exactly, but for the clock, which may differ by CLOCK."""
    for number in range(max(len(simulator.steps), len(other.steps))):
        ours, theirs = _at(simulator, number), _at(other, number)
        columns = ("steps",) if ours is None or theirs is None else _different(ours, theirs)
        if columns:
            before = _at(simulator, number - 1) if number else None
            return Divergence(number, columns, other.side, ours, theirs, before)
    return None


def different_outside_steps(simulator: ReplayLog, other: ReplayLog, experiment: Experiment) -> Iterator[str]:
    """Who was turned away on arrival, and sums that no step shows; a line for each difference."""
    for row in sorted(simulator.rejected ^ other.rejected):
        both = (simulator.side, other.side)
        rejects, serves = both if row in simulator.rejected else both[::-1]
        yield f"the {rejects} turns {experiment.names[row]} away on arrival, and the {serves} serves it"
    for name, ours in simulator.totals.items():
        theirs = other.totals[name]
        if name not in FROM_ROWS and ours != theirs:
            yield f"{name.replace('_', ' ')}: {ours} by the {simulator.side}, {theirs} by the {other.side}"


def _different(ours: ReplayStep, theirs: ReplayStep) -> tuple[str, ...]:
    clocks = [name for name in CLOCKS if not _same_time(getattr(ours, name), getattr(theirs, name))]
    return (*clocks, *(name for name in COLUMNS if getattr(ours, name) != getattr(theirs, name)))


def _same_time(ours: float, theirs: float) -> bool:
    return math.isclose(ours, theirs, rel_tol=CLOCK, abs_tol=CLOCK)


def _at(log: ReplayLog, number: int) -> ReplayStep | None:
    return log.steps[number] if number < len(log.steps) else None
