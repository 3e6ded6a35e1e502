"""Who waits, in what order. Requests that have not been reached yet are not queued: they are a place in the trace."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush


class Waiting:
    """First come first served; a preempted request goes to the front.

    `rows`: the requests that can be served at all, in order of arrival. Arrivals cost nothing while the head of the
    queue waits, however many they are. `next_arrival_s`: when the first request arrives that has not been admitted yet,
    nor stands in a queue; inf: none will.
    """

    newcomers_matter = False  # whether an arrival can be admitted though someone waits already

    def __init__(self, rows: list[int], arrival_s: list[float]) -> None:
        self._coming = iter(rows)
        self._arrival_s = arrival_s
        self._returning: deque[int] = deque()
        self._advance()

    def anyone(self, now: float) -> bool:
        """Whether anyone waits."""
        return self.next_arrival_s <= now or bool(self._returning)

    def head(self, now: float) -> int | None:
        """The row whose turn it is."""
        if self._returning:
            return self._returning[0]
        return self._next if self.next_arrival_s <= now else None

    def take(self) -> None:
        """The head is admitted."""
        if self._returning:
            self._returning.popleft()
        else:
            self._advance()

    def put_back(self, row: int) -> None:
        """A preempted request comes before all others."""
        self._returning.appendleft(row)

    def _advance(self) -> None:
        self._next: int | None = next(self._coming, None)
        self.next_arrival_s = math.inf if self._next is None else self._arrival_s[self._next]


class WaitingByPriority(Waiting):
    """Least priority number first, then first come first served; preempted requests have no better place."""

    newcomers_matter = True

    def __init__(self, rows: list[int], arrival_s: list[float], priority: list[int]) -> None:
        super().__init__(rows, arrival_s)
        self._priority = priority
        self._queue: list[tuple[int, int]] = []

    def anyone(self, now: float) -> bool:
        """Whether anyone waits."""
        return self.next_arrival_s <= now or bool(self._queue)

    def head(self, now: float) -> int | None:
        """The row whose turn it is."""
        while self.next_arrival_s <= now:
            self.put_back(self._next)
            self._advance()
        return self._queue[0][1] if self._queue else None

    def take(self) -> None:
        """The head is admitted."""
        heappop(self._queue)

    def put_back(self, row: int) -> None:
        """A request joins, new or preempted."""
        heappush(self._queue, (self._priority[row], row))
