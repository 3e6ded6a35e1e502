"""Sequences of arrivals, departures and growth: as a student writes them, and as they are drawn."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pagesim.sim.errors import UsageError
from pagesim.sim.quiz.draws import Draws

FORM = re.compile(r"(?P<owner>\d+)?(?P<sign>[+-])(?P<count>\d+)", re.ASCII)
MOST_OPERATIONS = 200
MOST_DIGITS = 9
ARRIVES, LEAVES, GROWS = "+", "-", "grow"


@dataclass(frozen=True, slots=True)
class Operation:
    """`kind` of ARRIVES, LEAVES, GROWS. `owner`: who leaves or grows. `tokens`: of who arrives; more, of who grows."""

    kind: str
    owner: int | None = None
    tokens: int = 0

    def __str__(self) -> str:
        if self.kind == LEAVES:
            return f"-{self.owner}"
        return f"{'' if self.owner is None else self.owner}+{self.tokens}"


def words(text: str, accepted: str) -> list[str]:
    """The parts of a sequence between commas. Raises UsageError if there is none, or too many."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_OPERATIONS:
        raise UsageError(f"--explicit has {len(parts)} parts; accepted: up to {MOST_OPERATIONS}")
    for place, part in enumerate(parts, start=1):
        if not part:
            raise refused(place, part, accepted)
    return parts


def refused(place: int, part: str, accepted: str) -> UsageError:
    """The error of a part of a sequence, counted from 1."""
    return UsageError(f"--explicit, part {place}, '{part}'; accepted: {accepted}")


def parse(text: str, accepted: str, can_grow: bool) -> list[Operation]:
    """`+10,+20,-0`, and `1+5` if a sequence can grow. Raises UsageError."""
    found = []
    for place, part in enumerate(words(text, accepted), start=1):
        form = FORM.fullmatch(part)
        if form is None or len(part) > MOST_DIGITS:
            raise refused(place, part, accepted)
        owner, count = form["owner"], int(form["count"])
        if form["sign"] == "-" and owner is None:
            found.append(Operation(LEAVES, count))
        elif form["sign"] == "+" and count and (owner is None or can_grow):
            found.append(Operation(GROWS, int(owner), count) if owner else Operation(ARRIVES, tokens=count))
        else:
            raise refused(place, part, accepted)
    return found


def check_owner(place: int, part: object, owner: int | None, live: Collection[int]) -> None:
    """Raise UsageError unless whoever leaves or grows is there. Refused sequences are not, nor those that have left."""
    if owner not in live:
        there = f"one that is there now: {', '.join(map(str, sorted(live)))}" if live else "an arrival: nobody is there"
        raise refused(place, str(part), there)


def drawn(
    draws: Draws, live: Collection[int], percent_arrivals: int, max_request: int, max_growth: int = 0
) -> Operation:
    """An arrival in `percent_arrivals` of 100 draws, else someone leaves, or grows as often if `max_growth` allows."""
    if not live or draws.chance(percent_arrivals):
        return Operation(ARRIVES, tokens=draws.between(1, max_request))
    owner = draws.one_of(sorted(live))
    if max_growth and draws.chance(50):
        return Operation(GROWS, owner, draws.between(1, max_growth))
    return Operation(LEAVES, owner)
