"""Maximum reservation: every request gets `max_model_len` slots in a row, for as long as it lives (Orca Max)."""

from __future__ import annotations

from collections.abc import Iterable

from pagesim.sim.allocators.base import Allocator, Extent, Pool


class Reservation(Allocator):
    """The pool is cut into slots of one longest sequence each; what is left at its end, if anything, nobody can use."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        size = pool.max_model_len
        self._free = [slot * size for slot in reversed(range(pool.capacity_tokens // size))]  # the last is taken first
        self._start: dict[int, int] = {}

    @property
    def largest_free_run(self) -> int:
        """One reservation, or the remainder that is too small for one."""
        size = self.pool.max_model_len
        return size if self._free else self.pool.capacity_tokens % size

    def place(self, owner: int, tokens: int) -> bool:
        """Give a whole reservation, whatever `tokens` is."""
        if not self._free:
            return False
        self._start[owner] = self._free.pop()
        self.tokens[owner] = tokens
        self.free_tokens -= self.pool.max_model_len
        return True

    def grow(self, owner: int, tokens: int) -> bool:
        """Always possible: the room was reserved."""
        assert tokens <= self.pool.max_model_len, f"owner {owner} grows to {tokens}"
        self.tokens[owner] = tokens
        return True

    def release(self, owner: int) -> None:
        """Take the reservation back."""
        del self.tokens[owner]
        self._free.append(self._start.pop(owner))
        self.free_tokens += self.pool.max_model_len

    def owned(self, owner: int) -> int:
        """One longest sequence."""
        return self.pool.max_model_len

    def extents(self, owner: int) -> Iterable[Extent]:
        """One."""
        yield Extent(self._start[owner], self.pool.max_model_len)

    def free_extents(self) -> Iterable[Extent]:
        """The free reservations, and the remainder at the end of the pool."""
        size, capacity = self.pool.max_model_len, self.pool.capacity_tokens
        yield from (Extent(start, size) for start in self._free)
        if capacity % size:
            yield Extent(capacity - capacity % size, capacity % size)
