"""One step of a replay, in the columns that the simulator and the engine both keep, and the log they make up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

CLOCK = 1e-9  # relative, or seconds: the sums of two roundings may differ so much, and are one time


class ReplayStep(NamedTuple):
    """What a step was when it had been scheduled. Requests go by their rows in the trace.

    `start_s`, `duration_s`: on the virtual clock. `blocks_used`: blocks that somebody holds; slots, behind an allocator
    of contiguous runs. `admitted`: (request, tokens found in the prefix cache). `finished`: whose last token came of
    this step. A named tuple, for there is one for each of a million steps.
    """

    step: int
    start_s: float
    duration_s: float
    running: int
    waiting: int
    scheduled_tokens: int
    blocks_used: int
    admitted: tuple[tuple[int, int], ...]
    preempted: tuple[int, ...]
    finished: tuple[int, ...]

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain values; requests by name."""
        return self._asdict() | {
            "admitted": [[names[row], hit] for row, hit in self.admitted],
            "preempted": [names[row] for row in self.preempted],
            "finished": [names[row] for row in self.finished],
        }


@dataclass(frozen=True, slots=True)
class ReplayLog:
    """One side's account of a replay.

    `rejected`: requests that it turned away on arrival, of those that were offered to both. `totals`: sums over the
    run, by the names of the recordings' format, which the two sides count each in their own way.
    """

    side: str
    steps: Sequence[ReplayStep]
    rejected: frozenset[int]
    totals: Mapping[str, int]
