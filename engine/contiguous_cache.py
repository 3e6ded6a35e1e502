"""The two contiguous caches: every sequence gets one run of slots when it is admitted, and keeps it to its end.

A reservation is as long as any sequence may become. An exact fit is as long as this one will be, which `max_tokens`
tells beforehand, as an oracle would: one that stops early had a longer run than it needed. Nothing moves, so the free
slots end up scattered. Nothing is shared.
"""

from __future__ import annotations

from bisect import bisect_left

from pagesim.engine.errors import MemoryBudgetError
from pagesim.engine.sequence import Sequence


class ContiguousCache:
    """Runs out of one row of `num_slots` slots, of `reservation` slots each or, if that is None, of exact fit.

    A block is a reservation, or a slot. `fit`: which of the free runs that are long enough. first: the lowest; best:
    the shortest; worst: the longest, of equal ones the lowest; next: the first at or after where the last search
    ended, then from the bottom. Raises MemoryBudgetError if the pool is empty, or holds not even one reservation.
    """

    is_paged = False
    num_rows = 1

    def __init__(self, num_slots: int, *, fit: str = "first", reservation: int | None = None) -> None:
        if num_slots < 1:
            raise MemoryBudgetError(f"a pool of {num_slots} tokens is empty; accepted: at least 1")
        if reservation is not None and num_slots < reservation:
            raise MemoryBudgetError(
                f"a pool of {num_slots} tokens holds no reservation of max_model_len {reservation}; "
                f"accepted: max_model_len up to {num_slots}"
            )
        self.fit = fit
        self.reservation = reservation
        self.row_tokens = num_slots
        self.block_size = reservation or 1
        self.num_blocks = num_slots // self.block_size
        self.blocks_used = 0
        self._free: list[tuple[int, int]] = [(0, num_slots)]  # (start, stop) of each run, by address, never adjacent
        self._owners: dict[int, Sequence] = {}  # by first slot
        self._next = 0

    @property
    def max_slots(self) -> int:
        """A reservation, or the whole pool."""
        return self.reservation or self.row_tokens

    @property
    def largest_free_run(self) -> int:
        """The longest run that could be placed now, in slots."""
        return max((stop - start for start, stop in self._free), default=0)

    def match(self, sequence: Sequence) -> list[int]:
        """Nothing: runs are not shared."""
        return []

    def admit(self, sequence: Sequence, hit: list[int], stop: int, room: int, keep_free: int) -> bool:
        """Give it its run, if one is free and `keep_free` other blocks stay so."""
        length = self._length(sequence)
        assert sequence.first_slot is None and not hit and room <= length
        if self.blocks_used + length // self.block_size + keep_free > self.num_blocks:
            return False
        index = self._choose(length)
        if index is None:
            return False
        start, stop = self._free[index]
        self._free[index : index + 1] = [(start + length, stop)] if start + length < stop else []
        self._next = start + length
        self._owners[start] = sequence
        self.blocks_used += length // self.block_size
        sequence.first_slot = start
        return True

    def grow(self, sequence: Sequence, start: int, stop: int) -> bool:
        """Always: the run is long enough."""
        assert stop <= self._length(sequence)
        return True

    def free(self, sequence: Sequence) -> None:
        """Take the run back, and join it with its free neighbours."""
        start = sequence.first_slot
        assert start is not None
        stop = start + self._length(sequence)
        del self._owners[start]
        self.blocks_used -= (stop - start) // self.block_size
        sequence.first_slot = None
        first = last = bisect_left(self._free, (start, stop))
        if first and self._free[first - 1][1] == start:
            first -= 1
            start = self._free[first][0]
        if last < len(self._free) and self._free[last][0] == stop:
            stop = self._free[last][1]
            last += 1
        self._free[first:last] = [(start, stop)]

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Never asked for: the scheduler turns forks away on arrival where the cache is not paged."""
        raise AssertionError(f"{child} cannot share the run of {parent}")

    def take_copies(self) -> tuple[tuple[int, int], ...]:
        """None: nothing is shared."""
        return ()

    def check(self) -> None:
        """Raise AssertionError, with the state, if runs overlap, leave a hole, or are free side by side. O(runs)."""
        held = [(start, start + self._length(sequence), False) for start, sequence in self._owners.items()]
        state = f"free {self._free}, held {self._owners}"
        end, was_free = 0, False
        for start, stop, is_free in sorted(held + [(start, stop, True) for start, stop in self._free]):
            assert start == end < stop and not (is_free and was_free), state
            end, was_free = stop, is_free
        assert end == self.row_tokens, state
        assert self.blocks_used * self.block_size == sum(stop - start for start, stop, _ in held), state
        assert all(sequence.first_slot == start for start, sequence in self._owners.items()), state

    def _length(self, sequence: Sequence) -> int:
        return self.reservation or sequence.max_slots

    def _choose(self, length: int) -> int | None:
        """The place in the free list of the run to cut, or None if none is long enough."""
        sizes = {i: stop - start for i, (start, stop) in enumerate(self._free) if stop - start >= length}
        if not sizes:
            return None
        if self.fit == "best":
            return min(sizes, key=sizes.__getitem__)
        if self.fit == "worst":
            return max(sizes, key=sizes.__getitem__)
        first = next(iter(sizes))
        return next((i for i in sizes if self._free[i][0] >= self._next), first) if self.fit == "next" else first
