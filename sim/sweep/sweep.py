"""A sweep, carried out: what is on disk already is passed over, and the rest goes there as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from pagesim.sim.sweep.journal import Journal
from pagesim.sim.sweep.workers import Job, Workers


class Jobs(Protocol):
    """All that there is to do; each time the same."""

    def points(self) -> Iterator[Job]:
        """In a fixed order."""
        ...

    @property
    def num_points(self) -> int:
        """How many."""
        ...


@dataclass(frozen=True, slots=True)
class Counts:
    """Points of a plan: all, those that were on disk before, those run now, and of all of them those that failed."""

    points: int
    skipped: int
    run: int
    failed: int


@dataclass(frozen=True, slots=True)
class Rest:
    """What is still to do of a plan, given a journal. `retry_failed`: what went wrong before is done again."""

    plan: Jobs
    journal: Journal
    retry_failed: bool = False

    def points(self) -> Iterator[Job]:
        """In the order of the plan."""
        return (point for point in self.plan.points() if not self._is_done(point))

    @property
    def requests(self) -> int:
        """What is put through allocators for that, each counted: the work that is left."""
        return sum(point.requests for point in self.points())

    @property
    def skipped(self) -> int:
        """Points that are done."""
        return sum(self._is_done(point) for point in self.plan.points())

    def _is_done(self, point: Job) -> bool:
        return point.key in self.journal and not (self.retry_failed and self.journal.failed(point.key))


def carry_out(rest: Rest, workers: Workers, on_progress: Callable[[int], None]) -> Counts:
    """Run what is left; `on_progress` is told of the requests of each point once that is on disk."""
    journal, skipped, done = rest.journal, rest.skipped, 0
    left = list(rest.points()) if rest.retry_failed else rest.points()  # or what fails again is handed out again
    with closing(workers(left)) as finished:
        for point, outcome in finished:
            journal.add(point.key, outcome)
            done += 1
            on_progress(point.requests)
    failed = sum(journal.failed(point.key) for point in rest.plan.points())
    return Counts(rest.plan.num_points, skipped, done, failed)
