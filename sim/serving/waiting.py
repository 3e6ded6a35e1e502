"""Who waits, in what order. Requests that have not been reached yet are not queued: they are a place in the trace."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush


class Waiting:
    """First come first served; a preempted request goes to the front.

    `rows`: the requests that can be served at all, in order of arrival. Arrivals cost nothing while the head of the
    queue waits, however many they are.
    """

    newcomers_matter = False  # whether an arrival can be admitted though someone waits already

    def __init__(self, rows: list[int], arrival_s: list[float]) -> None:
        self._rows = [*rows, -1]
        self._arrival_s = [*(arrival_s[row] for row in rows), math.inf]
        self._next = 0
        self._returning: deque[int] = deque()

    @property
    def next_arrival_s(self) -> float:
        """When the first request arrives that has not been admitted yet or stands in the queue; inf: none will."""
        return self._arrival_s[self._next]

    def head(self, now: float) -> int | None:
        """The row whose turn it is."""
        if self._returning:
            return self._returning[0]
        return self._rows[self._next] if self._arrival_s[self._next] <= now else None

    def take(self) -> None:
        """The head is admitted."""
        if self._returning:
            self._returning.popleft()
        else:
            self._next += 1

    def put_back(self, row: int) -> None:
        """A preempted request comes before all others."""
        self._returning.appendleft(row)


class WaitingByPriority(Waiting):
    """Least priority number first, then first come first served; preempted requests have no better place."""

    newcomers_matter = True

    def __init__(self, rows: list[int], arrival_s: list[float], priority: list[int]) -> None:
        super().__init__(rows, arrival_s)
        self._priority = priority
        self._queue: list[tuple[int, int]] = []

    def head(self, now: float) -> int | None:
        """The row whose turn it is."""
        while self._arrival_s[self._next] <= now:
            self.put_back(self._rows[self._next])
            self._next += 1
        return self._queue[0][1] if self._queue else None

    def take(self) -> None:
        """The head is admitted."""
        heappop(self._queue)

    def put_back(self, row: int) -> None:
        """A request joins, new or preempted."""
        heappush(self._queue, (self._priority[row], row))
