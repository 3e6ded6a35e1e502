"""The hashed part of the free list: free blocks that can still be found, in the order in which they will be taken."""

from __future__ import annotations

import numpy as np

from pagesim.sim.trace import Ints

GONE = -1


class FreeQueue:
    """Slots from the least recently freed to the most; any may leave from the middle. Works on arrays of slots."""

    def __init__(self, slots: int) -> None:
        self._queue = np.full(2 * slots + 16, GONE, np.int64)
        self._place = np.zeros(slots, np.int64)  # by slot: where it stands in the queue
        self._head = self._tail = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, slots: Ints) -> None:
        """At the end, in order."""
        count = len(slots)
        if self._tail + count > len(self._queue):
            self._close_ranks()
        self._queue[self._tail : self._tail + count] = slots
        self._place[slots] = np.arange(self._tail, self._tail + count)
        self._tail += count
        self._count += count

    def remove(self, slots: Ints) -> None:
        """From wherever they stand."""
        self._queue[self._place[slots]] = GONE
        self._count -= len(slots)

    def take(self, count: int) -> Ints:
        """The first `count`; there must be as many."""
        taken: list[Ints] = []
        self._count -= count
        while count:
            look = self._queue[self._head : min(self._tail, self._head + count + 16)]
            places = (look != GONE).nonzero()[0][:count]
            taken.append(look[places])
            self._head += int(places[-1]) + 1 if len(places) == count else len(look)
            count -= len(places)
        return np.concatenate(taken) if len(taken) > 1 else taken[0]

    def slots(self) -> Ints:
        """All, in order."""
        queue = self._queue[self._head : self._tail]
        return queue[queue != GONE]

    def _close_ranks(self) -> None:
        slots = self.slots()
        self._head, self._tail, self._count = 0, 0, 0
        self.append(slots)
