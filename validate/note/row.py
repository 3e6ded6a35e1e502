"""One row: a figure of the note, ours, and what their agreement is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pagesim.sim.experiments.row import Row as ExperimentRow
from pagesim.sim.experiments.row import Standing as ExperimentStanding

REPRODUCED_WITHIN = 0.02  # of a figure that the note drew at random, or rounded to two digits


class Standing(StrEnum):
    """What the agreement of a row says."""

    ARITHMETIC = "arithmetic"  # must be equal, and is
    REPRODUCED = "reproduced"  # counted, simulated or drawn again, and equal or within REPRODUCED_WITHIN
    PREDICTED = "predicted"  # nothing was fitted on it, and it is explained
    FITTED = "fitted"  # something was fitted on it, so that it agrees says nothing
    NOT_EXPLAINED = "not explained"  # the remark says why


FROM_EXPERIMENTS = {
    ExperimentStanding.EXACT: Standing.REPRODUCED,
    ExperimentStanding.HELD_OUT: Standing.PREDICTED,
    ExperimentStanding.FITTED: Standing.FITTED,
    ExperimentStanding.NOT_EXPLAINED: Standing.NOT_EXPLAINED,
    ExperimentStanding.UNKNOWN_LENGTH: Standing.NOT_EXPLAINED,
}


@dataclass(frozen=True, slots=True)
class NoteRow:
    """A figure by its name in the note's table. `kind`: A arithmetic, M measured on the card, S the note's simulation.

    `published`: every value that the note gives for it; `unit` is that of both. `ours` is NaN where it cannot be had
    here. `command` shows ours. `fell_short`: it was to agree, and does not.
    """

    id: str
    kind: str
    what: str
    published: tuple[float, ...]
    ours: float
    unit: str
    standing: Standing
    command: str
    remark: str
    fell_short: bool = False

    @property
    def difference(self) -> float | None:
        """Ours relative to the mean of what was published, less one; None where that makes no sense."""
        if math.isnan(self.ours):
            return None
        mean = sum(self.published) / len(self.published)
        if mean:
            return self.ours / mean - 1
        return 0.0 if self.ours == 0 else None

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        names = ("id", "kind", "what", "published", "ours", "unit", "difference", "standing", "command", "remark")
        values = {name: getattr(self, name) for name in names}
        return values | {"published": list(self.published), "ours": None if math.isnan(self.ours) else self.ours}


def of_experiment(row: ExperimentRow, kind: str, command: str) -> NoteRow:
    """A row of an experiment that something was published of; what is equal counts as reproduced."""
    standing = FROM_EXPERIMENTS[row.standing]
    remark = row.remark
    if row.standing is ExperimentStanding.EXACT and row.published != (row.ours,):
        standing, remark = Standing.NOT_EXPLAINED, f"Must be equal, and is not. {row.remark}"
    fell_short = standing is not FROM_EXPERIMENTS[row.standing]
    if row.standing is ExperimentStanding.UNKNOWN_LENGTH:
        remark = f"Depends on a length that the note does not give. {row.remark}"
    return NoteRow(row.figure, kind, row.what, row.published, row.ours, row.unit, standing, command, remark, fell_short)
