"""Exact fit: every sequence gets one contiguous run of its final length, which `max_tokens` tells beforehand.

An oracle: a request that stops early had a longer run than it needed. Nothing moves, so free slots end up scattered.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from pagesim.engine.cache_manager import Slots
from pagesim.engine.config import Fit
from pagesim.engine.errors import MemoryBudgetError
from pagesim.engine.sequence import Sequence


class ExactFitCache:
    """Runs out of one row of `num_slots` slots; a slot counts as a block.

    `fit`: which of the free runs that are long enough. first: the lowest; best: the shortest; worst: the longest; of
    equal ones the lowest; next: the first from where the last search ended, then from 0.

    Raises MemoryBudgetError on an empty pool.
    """

    is_paged = False
    block_size = 1
    num_rows = 1

    def __init__(self, num_slots: int, fit: Fit = "first") -> None:
        if num_slots < 1:
            raise MemoryBudgetError(f"the pool holds {num_slots} tokens; accepted: at least 1")
        self.fit = fit
        self.row_tokens = self.num_blocks = num_slots
        self._free: list[tuple[int, int]] = [(0, num_slots)]  # (start, stop) of each run, by address, never adjacent
        self._owners: dict[int, Sequence] = {}  # by first slot
        self._next = 0
        self._used = 0

    @property
    def blocks_used(self) -> int:
        """Slots that somebody holds, filled or not."""
        return self._used

    @property
    def max_slots(self) -> int:
        """The whole pool."""
        return self.row_tokens

    @property
    def largest_free_run(self) -> int:
        """The longest run that could be placed now, in slots."""
        return max((stop - start for start, stop in self._free), default=0)

    def match(self, sequence: Sequence) -> list[int]:
        """Nothing: runs are not shared."""
        return []

    def admit(self, sequence: Sequence, hit: list[int], stop: int, room: int, keep_free: int) -> bool:
        """Give it a run of `sequence.max_slots`, if one is free and `keep_free` other slots stay so."""
        assert sequence.first_slot is None and not hit and room <= sequence.max_slots
        length = sequence.max_slots
        if self._used + length + keep_free > self.row_tokens:
            return False
        index = self._choose(length)
        if index is None:
            return False
        start, end = self._free[index]
        self._free[index : index + 1] = [(start + length, end)] if start + length < end else []
        self._next = start + length
        self._owners[start] = sequence
        self._used += length
        sequence.first_slot = start
        return True

    def grow(self, sequence: Sequence, start: int, stop: int) -> bool:
        """Always: the run is long enough."""
        assert stop <= sequence.max_slots
        return True

    def free(self, sequence: Sequence) -> None:
        """Take the run back, and join it with its free neighbours."""
        start = self.slot(sequence, 0)
        stop = start + sequence.max_slots
        del self._owners[start]
        self._used -= stop - start
        index = first = bisect_left(self._free, (start, stop))
        last = index
        if index and self._free[index - 1][1] == start:
            first, start = index - 1, self._free[index - 1][0]
        if index < len(self._free) and self._free[index][0] == stop:
            last, stop = index + 1, self._free[index][1]
        self._free[first:last] = [(start, stop)]
        sequence.first_slot = None

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Never asked for: the scheduler turns forks away on arrival where the cache is not paged."""
        raise AssertionError(f"{child} cannot share the run of {parent}")

    def take_copies(self) -> tuple[tuple[int, int], ...]:
        """None: nothing is shared."""
        return ()

    def slot(self, sequence: Sequence, position: int) -> int:
        """First slot plus position."""
        assert sequence.first_slot is not None
        return sequence.first_slot + position

    def slots(self, sequence: Sequence, start: int, stop: int) -> Slots:
        """The slots, [stop - start] int64, of positions [start, stop)."""
        first = self.slot(sequence, 0)
        return np.arange(first + start, first + stop, dtype=np.int64)

    def check(self) -> None:
        """Raise AssertionError, with the state, if runs overlap, leave a hole, or are free side by side."""
        held = [(start, start + sequence.max_slots, False) for start, sequence in self._owners.items()]
        runs = sorted(held + [(start, stop, True) for start, stop in self._free])
        state = f"free {self._free}, held {self._owners}"
        end, was_free = 0, False
        for start, stop, is_free in runs:
            assert start == end < stop and not (is_free and was_free), state
            end, was_free = stop, is_free
        assert end == self.row_tokens, state
        assert self._used == sum(stop - start for start, stop, _ in held), state
        assert all(sequence.first_slot == start for start, sequence in self._owners.items()), state

    def _choose(self, length: int) -> int | None:
        """The place in the free list of the run to cut, or None if none is long enough."""
        fitting = [index for index, (start, stop) in enumerate(self._free) if stop - start >= length]
        if not fitting:
            return None
        if self.fit == "first":
            return fitting[0]
        if self.fit == "next":
            return next((index for index in fitting if self._free[index][0] >= self._next), fitting[0])
        sizes = {index: self._free[index][1] - self._free[index][0] for index in fitting}
        return min(sizes, key=sizes.__getitem__) if self.fit == "best" else max(sizes, key=sizes.__getitem__)
