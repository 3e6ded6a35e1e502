"""What gives blocks their ranks in a RankedQueue: when they could first be found, or when they will be asked for next.

The what-ifs `evict` "fifo" and "optimal". The pool tells of what happens to its blocks.
"""

from __future__ import annotations

from array import array
from typing import Protocol

import numpy as np

from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.eviction import RankedQueue
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.running import Running
from pagesim.sim.trace import Ints


class Ranking(Protocol):
    """What a pool of blocks that can be found tells of. `row` names a request; its blocks are numbered from 0."""

    def placed(self, row: int, hit_blocks: int) -> None:
        """A request is let in, and has found so many."""

    def extended(self, row: int, full: int) -> None:
        """The step that is being scheduled fills its blocks up to `full`."""

    def inserted(self, row: int, first: int, slots: Ints, keys: Ints) -> None:
        """Its blocks from number `first` on got their hashes: they lie in `slots`, and are known by `keys`."""

    def returned(self, row: int, keys: Ints) -> None:
        """It was preempted, and waits to come back; `keys` of its blocks."""

    def finished(self, row: int, first: int, slots: Ints) -> None:
        """It is done; its blocks from number `first` on, which lie in `slots`, nobody will ever ask for."""


class FirstIn:
    """Ranks a block by when it got its hash: by step, and within it in the order in which the scheduler serves.

    Decodes fill theirs in steps that nobody looks at one by one; `running` says when that was.
    """

    def __init__(self, queue: RankedQueue, running: Running, block_size: int) -> None:
        self._queue, self._running, self._size = queue, running, block_size
        self._admissions = 0
        self._number: dict[int, int] = {}  # by row: of its admission
        self._steps: dict[int, list[int]] = {}  # by row: the step that filled each block, as far as that is settled
        running.on_hold = self._held_back

    def placed(self, row: int, hit_blocks: int) -> None:
        """What it found has its rank already."""
        self._admissions += 1
        self._number[row] = self._admissions
        self._steps[row] = [0] * hit_blocks

    def extended(self, row: int, full: int) -> None:
        """They are filled now."""
        steps = self._steps[row]
        steps += [self._running.step] * (full - len(steps))

    def inserted(self, row: int, first: int, slots: Ints, keys: Ints) -> None:
        """Each by the step that filled it."""
        self._settle(row, first + len(slots))
        number, steps = self._number[row], self._steps[row]
        for block, slot in enumerate(slots.tolist(), first):
            self._queue.change(slot, (steps[block], number, block))

    def returned(self, row: int, keys: Ints) -> None:
        """Changes nothing."""

    def finished(self, row: int, first: int, slots: Ints) -> None:
        """Ranked as others are."""
        self.inserted(row, first, slots, slots)
        del self._number[row], self._steps[row]

    def _held_back(self, row: int) -> None:
        """From here on all its steps are one later."""
        self._settle(row, (self._running.step - self._running.base[row]) // self._size)

    def _settle(self, row: int, full: int) -> None:
        """Blocks up to `full` that are not settled were filled by decodes, each in its step."""
        base, steps = self._running.base[row], self._steps[row]
        steps += [base + (block + 1) * self._size - 1 for block in range(len(steps), full)]


class FutureUse:
    """Belady's rule, on blocks: whoever will be asked for last goes first, and before all who never will be again.

    The future is the look-ups of requests that were not let in yet, in order of arrival, which is the order of fcfs
    while nobody is preempted; before these come the look-ups of requests that were preempted and wait to come back. All
    copies of a block count as asked for. The rule looks at blocks, not at chains, and does not know what a hit changes
    of the times at which others come: it is the yardstick that caches are measured by, no proof of an optimum.
    """

    def __init__(self, queue: RankedQueue, chains: HashChains, requests: Requests, block_size: int) -> None:
        self._queue, self._known, self._size = queue, requests.known, block_size
        self._done = bytearray(b"\1" * len(requests))  # by row: was let in, or never will be
        for row in requests.servable:
            self._done[row] = 0
        self._keys = {row: chains.prompt(row)[: (requests.known[row] - 1) // block_size] for row in requests.servable}
        keys = np.concatenate([np.empty(0, np.int64), *self._keys.values()])
        rows = np.repeat(np.array(requests.servable, np.int64), [len(part) for part in self._keys.values()])
        self._uses = array("q", rows[np.argsort(keys, kind="stable")].tobytes())  # key by key, in order of arrival
        ends = np.cumsum(np.bincount(keys, minlength=chains.num_keys))
        self._end = array("q", ends.tobytes())
        self._next = array("q", np.concatenate((np.zeros(1, np.int64), ends[:-1]))[: len(ends)].tobytes())
        self._back: dict[int, int] = {}  # by key: requests that wait to come back and will ask for it
        self._waits: dict[int, list[int]] = {}  # by row of such a request: these keys
        self._slots: dict[int, set[int]] = {}  # by key
        self._key: dict[int, int] = {}  # by slot

    def placed(self, row: int, hit_blocks: int) -> None:
        """It has asked, and will not again."""
        keys = self._waits.pop(row, None)
        if keys is None:
            keys = self._keys.pop(row).tolist()
            self._done[row] = 1
        else:
            for key in keys:
                self._back[key] -= 1
        self._rank(keys)

    def extended(self, row: int, full: int) -> None:
        """Changes nothing."""

    def inserted(self, row: int, first: int, slots: Ints, keys: Ints) -> None:
        """Each by the next use of its key."""
        for slot, key in zip(slots.tolist(), keys.tolist(), strict=True):
            self._forget(slot)
            self._key[slot] = key
            self._slots.setdefault(key, set()).add(slot)
            self._queue.change(slot, self._soon(key))

    def returned(self, row: int, keys: Ints) -> None:
        """It will ask for them sooner than anybody who has not been let in yet."""
        waits = self._waits[row] = keys[: (self._known[row] - 1) // self._size].tolist()
        for key in waits:
            self._back[key] = self._back.get(key, 0) + 1
        self._rank(waits)

    def finished(self, row: int, first: int, slots: Ints) -> None:
        """They go before all others."""
        for slot in slots.tolist():
            self._forget(slot)
            self._queue.change(slot, -len(self._done))

    def _rank(self, keys: list[int]) -> None:
        for key in keys:
            for slot in self._slots.get(key, ()):
                self._queue.change(slot, self._soon(key))

    def _soon(self, key: int) -> int:
        """The greater, the sooner it will be asked for: 1 for those who wait to come back, minus the row for others."""
        if self._back.get(key):
            return 1
        if key >= len(self._end):  # of an answer
            return -len(self._done)
        place, end = self._next[key], self._end[key]
        while place < end and self._done[self._uses[place]]:
            place += 1
        self._next[key] = place
        return -self._uses[place] if place < end else -len(self._done)

    def _forget(self, slot: int) -> None:
        key = self._key.pop(slot, None)
        if key is not None:
            self._slots[key].discard(slot)
            if not self._slots[key]:
                del self._slots[key]
