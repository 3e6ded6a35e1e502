"""Queues of free blocks that can still be found, in other orders than vLLM's, which is that of `lru.FreeQueue`.

Plain blocks are taken before them under every rule. The cost is a little for each block, never for a token.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np

from pagesim.sim.trace import Ints


class EvictionQueue(Protocol):
    """Slots of free blocks that can still be found."""

    def __len__(self) -> int: ...

    def append(self, slots: Ints) -> None:
        """They are freed, in order."""

    def remove(self, slots: Ints) -> None:
        """They were found, one after the other."""

    def take(self, count: int) -> Ints:
        """The first `count` by the rule; there must be as many."""

    def slots(self) -> Ints:
        """All, in any order."""


class RandomQueue:
    """Any of them, each as likely: a place is drawn, and the last of the line takes the place of whoever goes."""

    def __init__(self, slots: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._line: list[int] = []
        self._place = [0] * slots  # by slot: where it stands

    def __len__(self) -> int:
        return len(self._line)

    def append(self, slots: Ints) -> None:
        """At the end, in order."""
        for slot in slots.tolist():
            self._place[slot] = len(self._line)
            self._line.append(slot)

    def remove(self, slots: Ints) -> None:
        """One after the other, from wherever they stand."""
        for slot in slots.tolist():
            self._leave(self._place[slot])

    def take(self, count: int) -> Ints:
        """One draw for each."""
        draws = self._rng.random(count).tolist()
        return np.array([self._leave(int(draw * len(self._line))) for draw in draws], np.int64)

    def slots(self) -> Ints:
        """All."""
        return np.array(self._line, np.int64)

    def _leave(self, place: int) -> int:
        line = self._line
        slot, last = line[place], line.pop()
        if place < len(line):
            line[place] = last
            self._place[last] = place
        return slot


Entry = tuple[Any, int, int]  # (rank, when it was freed, slot)


class RankedQueue:
    """Whoever has the least rank, and among equals whoever was freed first.

    Blocks that are freed together are one run, in order; what is kept as a heap is the runs, by their first.
    """

    def __init__(self, slots: int) -> None:
        self.rank: list[Any] = [0] * slots  # by slot; set before the slot is appended
        self._heap: list[tuple[Any, int, list[Entry]]] = []  # rank and time of the first; the run, backwards
        self._since: list[int] = [0] * slots  # by slot: when it was freed, 0: not free
        self._frees = 1
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, slots: Ints) -> None:
        """In order, by the ranks they have now."""
        freed = slots.tolist()
        for since, slot in enumerate(freed, self._frees):
            self._since[slot] = since
        rank = self.rank
        run = [(rank[slot], since, slot) for since, slot in enumerate(freed, self._frees)]
        run.sort(reverse=True)
        self._push(run)
        self._frees += len(freed)
        self._count += len(freed)

    def remove(self, slots: Ints) -> None:
        """From wherever they stand."""
        for slot in slots.tolist():
            self._since[slot] = 0
        self._count -= len(slots)

    def take(self, count: int) -> Ints:
        """The first by rank."""
        taken: list[int] = []
        while len(taken) < count:
            run = heappop(self._heap)[2]
            others = self._heap[0][:2] if self._heap else None
            while run and len(taken) < count and (others is None or run[-1][:2] <= others):
                rank, since, slot = run.pop()
                if self._since[slot] == since and self.rank[slot] == rank:
                    self._since[slot] = 0
                    taken.append(slot)
            self._push(run)
        self._count -= count
        return np.array(taken, np.int64)

    def slots(self) -> Ints:
        """All, in the order in which they were freed."""
        return np.array(sorted((s for s, since in enumerate(self._since) if since), key=self._since.__getitem__), int)

    def change(self, slot: int, rank: Any) -> None:
        """A free slot, or one that is not, has another rank from now on."""
        if self.rank[slot] != rank:
            self.rank[slot] = rank
            if self._since[slot]:
                self._push([(rank, self._since[slot], slot)])

    def _push(self, run: list[Entry]) -> None:
        if run:
            heappush(self._heap, (*run[-1][:2], run))
