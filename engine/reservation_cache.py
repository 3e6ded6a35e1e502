"""Reservation: every sequence gets one contiguous row of the greatest length there is, whatever it will need."""

from __future__ import annotations

import numpy as np

from pagesim.engine.cache_manager import Slots
from pagesim.engine.errors import MemoryBudgetError
from pagesim.engine.sequence import Sequence


class ReservationCache:
    """Rows of `max_model_len` slots, as many as `num_slots` hold; a row counts as a block. What is left over is lost.

    Raises MemoryBudgetError if not even one row fits.
    """

    is_paged = False

    def __init__(self, num_slots: int, max_model_len: int) -> None:
        if num_slots < max_model_len:
            raise MemoryBudgetError(
                f"a pool of {num_slots} tokens holds no reservation of max_model_len {max_model_len}; "
                f"accepted: max_model_len up to {num_slots}"
            )
        self.num_rows = self.num_blocks = num_slots // max_model_len
        self.row_tokens = self.block_size = max_model_len
        self._free = list(range(self.num_rows - 1, -1, -1))  # a stack: the row freed last is taken first
        self._owners: dict[int, Sequence] = {}

    @property
    def blocks_used(self) -> int:
        """Rows that somebody holds."""
        return len(self._owners)

    @property
    def max_slots(self) -> int:
        """Slots of a row."""
        return self.row_tokens

    def match(self, sequence: Sequence) -> list[int]:
        """Nothing: rows are not shared."""
        return []

    def admit(self, sequence: Sequence, hit: list[int], stop: int, room: int, keep_free: int) -> bool:
        """Give it a row, if `keep_free` others stay free."""
        assert not sequence.block_table and not hit and room <= self.row_tokens
        if len(self._free) < 1 + keep_free:
            return False
        row = self._free.pop()
        self._owners[row] = sequence
        sequence.block_table = [row]
        sequence.first_slot = row * self.row_tokens
        return True

    def grow(self, sequence: Sequence, start: int, stop: int) -> bool:
        """Always: the row is long enough."""
        assert stop <= self.row_tokens
        return True

    def free(self, sequence: Sequence) -> None:
        """Take the row back."""
        (row,) = sequence.block_table
        del self._owners[row]
        self._free.append(row)
        sequence.block_table = []
        sequence.first_slot = None

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Never asked for: the scheduler turns forks away on arrival where the cache is not paged."""
        raise AssertionError(f"{child} cannot share the row of {parent}")

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
        """Raise AssertionError, with the state, if a row is lost, free and held, or held by another than it thinks."""
        state = f"free {self._free}, held {self._owners}"
        assert sorted([*self._free, *self._owners]) == list(range(self.num_rows)), state
        for row, sequence in self._owners.items():
            assert sequence.block_table == [row] and sequence.first_slot == row * self.row_tokens, state
