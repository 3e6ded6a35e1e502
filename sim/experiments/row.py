"""One figure: what was published, what comes out here, and how much the agreement is worth."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pagesim.sim.errors import UsageError

EXPLAINED_WITHIN = 0.10


class Standing(StrEnum):
    """What a row's agreement says."""

    EXACT = "exact"  # a count or arithmetic: it must be equal
    FITTED = "fitted"  # the step-time profile was fitted on it, so that it agrees says nothing
    HELD_OUT = "held out"  # nothing was fitted on it
    NOT_EXPLAINED = "not explained"  # held out, and off by more than EXPLAINED_WITHIN
    UNKNOWN_LENGTH = "depends on an unknown length"  # the note does not say how long the prompts or answers were
    TRIED = "tried"  # one assumption was changed to see what a difference hangs on
    OURS = "ours alone"  # nothing was published


@dataclass(frozen=True, slots=True)
class Row:
    """A figure by its name in the note's table, `figure`, or the experiment's where the table has none.

    `published`: every value that the note gives for it, none for `OURS`. `unit` is that of both. `remark`: one
    sentence. Raises UsageError if the standing does not go with the values.
    """

    figure: str
    what: str
    published: tuple[float, ...]
    ours: float
    unit: str
    standing: Standing
    remark: str

    def __post_init__(self) -> None:
        if (self.standing is Standing.OURS) != (not self.published):
            raise UsageError(
                f"row {self.figure} ({self.what}): {self.standing} with {len(self.published)} published values"
            )

    @property
    def difference(self) -> float | None:
        """Ours relative to the mean of what was published, less one; None where that makes no sense."""
        mean = sum(self.published) / len(self.published) if self.published else 0.0
        if mean:
            return self.ours / mean - 1
        return 0.0 if self.published and self.ours == 0 else None

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "figure": self.figure,
            "what": self.what,
            "published": list(self.published),
            "ours": self.ours,
            "unit": self.unit,
            "difference": self.difference,
            "standing": self.standing.value,
            "remark": self.remark,
        }


def exact(figure: str, what: str, published: float, ours: float, unit: str, remark: str) -> Row:
    """A count that must be equal."""
    return Row(figure, what, (published,), ours, unit, Standing.EXACT, remark)


def held_out(figure: str, what: str, published: tuple[float, ...], ours: float, unit: str, remark: str) -> Row:
    """A figure that nothing was fitted on; explained if it is within EXPLAINED_WITHIN of the mean of `published`."""
    off = abs(ours * len(published) / sum(published) - 1)
    standing = Standing.HELD_OUT if off <= EXPLAINED_WITHIN else Standing.NOT_EXPLAINED
    return Row(figure, what, published, ours, unit, standing, remark)


def ours(figure: str, what: str, value: float, unit: str, remark: str) -> Row:
    """A figure of which nothing was published."""
    return Row(figure, what, (), value, unit, Standing.OURS, remark)
