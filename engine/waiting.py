"""Who waits, and in what order: first come first served, or by priority. A preempted sequence waits here again."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from pagesim.engine.config import Policy
from pagesim.engine.sequence import Sequence


class Waiting(Protocol):
    """A queue with a head. Nobody overtakes the head, even one who would fit."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sequence]: ...

    def head(self) -> Sequence:
        """Who is admitted next."""
        ...

    def add(self, sequence: Sequence) -> None:
        """Let a newcomer in."""
        ...

    def put_back(self, sequence: Sequence) -> None:
        """Let a preempted one in. Several victims of one step come in order of preemption, the most junior first."""
        ...

    def pop(self) -> Sequence:
        """Take the head out."""
        ...

    def remove(self, sequence: Sequence) -> None:
        """Take anyone out. O(waiting)."""
        ...


class ArrivalQueue:
    """First come first served: newcomers join the end, and the preempted the front, so in order of seniority."""

    def __init__(self) -> None:
        self._queue: deque[Sequence] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def head(self) -> Sequence:
        """The one in front."""
        return self._queue[0]

    def add(self, sequence: Sequence) -> None:
        """To the end."""
        self._queue.append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """To the front."""
        self._queue.appendleft(sequence)

    def pop(self) -> Sequence:
        """The one in front."""
        return self._queue.popleft()

    def remove(self, sequence: Sequence) -> None:
        """Anyone."""
        self._queue.remove(sequence)


class PriorityQueue:
    """The lowest `priority` first, of equals the earliest arrival, newcomers and preempted alike."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sequence]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Sequence]:
        return (sequence for *_, sequence in sorted(self._heap))

    def head(self) -> Sequence:
        """The first by priority and arrival."""
        return self._heap[0][2]

    def add(self, sequence: Sequence) -> None:
        """To its place."""
        heapq.heappush(self._heap, (*rank(sequence), sequence))

    def put_back(self, sequence: Sequence) -> None:
        """To its place."""
        self.add(sequence)

    def pop(self) -> Sequence:
        """The first by priority and arrival."""
        return heapq.heappop(self._heap)[2]

    def remove(self, sequence: Sequence) -> None:
        """Anyone."""
        self._heap.remove((*rank(sequence), sequence))
        heapq.heapify(self._heap)


def make_waiting(policy: Policy) -> Waiting:
    """The empty queue of a policy."""
    return PriorityQueue() if policy == "priority" else ArrivalQueue()


def rank(sequence: Sequence) -> tuple[int, int]:
    """By which policy "priority" orders: unique, since arrivals are."""
    return sequence.priority, sequence.arrival
