"""Who waits, and in what order. A preempted sequence waits here again.

One order serves both policies. First come, first served is the order of arrival: newcomers join the end, and since
those who run came before all who never did, and the last of them is preempted first, the preempted belong in front.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from pagesim.engine.sequence import Sequence


class Waiting:
    """A queue in order of `Sequence.rank`. Nobody overtakes its head, even one who would fit."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], Sequence]] = []  # ranks are unique: sequences are never compared

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Sequence]:
        return (sequence for _, sequence in sorted(self._heap))

    @property
    def head(self) -> Sequence:
        """Who is admitted next."""
        return self._heap[0][1]

    def add(self, sequence: Sequence) -> None:
        """Let one in, new or preempted."""
        heapq.heappush(self._heap, (sequence.rank, sequence))

    def pop(self) -> Sequence:
        """Take the head out."""
        return heapq.heappop(self._heap)[1]

    def remove(self, sequence: Sequence) -> None:
        """Take anyone out. O(waiting)."""
        self._heap.remove((sequence.rank, sequence))
        heapq.heapify(self._heap)
