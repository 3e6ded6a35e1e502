"""The buddy system: a request gets a power of two of slots, halved out of larger ones.

That is Orca (Oracle) in the PagedAttention paper: the true length, placed by a buddy system. Orca (Pow2) is in `orca`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pagesim.sim.allocators.base import Extent, OracleAllocator, Pool


class Buddy(OracleAllocator):
    """Runs of 2^k slots at addresses that are multiples of 2^k; two free halves of one run become that run again.

    A request gets the least power of two that holds its final length. A pool that is no power of two starts as the
    powers of its binary form, the largest at address 0. Knuth, The Art of Computer Programming 1, 2.5.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        capacity = pool.capacity_tokens
        self._free: list[dict[int, None]] = [{} for _ in range(capacity.bit_length())]  # by order: addresses, in turn
        self._orders = capacity  # bit k: a run of 2^k is free
        self._run: dict[int, tuple[int, int]] = {}  # owner -> (address, order)
        start = 0
        for order in reversed(range(capacity.bit_length())):
            if capacity >> order & 1:
                self._free[order][start] = None
                start += 1 << order

    @property
    def largest_request_tokens(self) -> int:
        """The largest power of two in the pool."""
        return min(self.pool.max_model_len, 1 << self.pool.capacity_tokens.bit_length() - 1)

    @property
    def largest_free_run(self) -> int:
        """The largest power of two that is free."""
        return 1 << self._orders.bit_length() - 1 if self._orders else 0

    def place(self, owner: int, tokens: int, final_tokens: int) -> bool:
        """Split the smallest free run that is large enough until it is just so."""
        wanted = (final_tokens - 1).bit_length()
        enough = self._orders >> wanted
        if not enough:
            return False
        order = wanted + (enough & -enough).bit_length() - 1
        start, _ = self._free[order].popitem()
        if not self._free[order]:
            self._orders ^= 1 << order
        while order > wanted:
            order -= 1
            self._free[order][start + (1 << order)] = None
            self._orders |= 1 << order
        self._run[owner] = (start, wanted)
        self.tokens[owner] = tokens
        self.free_tokens -= 1 << wanted
        return True

    def grow(self, owner: int, tokens: int) -> bool:
        """Always possible: the run was taken for the final length."""
        assert tokens <= self.owned(owner), f"owner {owner} grows to {tokens}"
        self.tokens[owner] = tokens
        return True

    def release(self, owner: int) -> None:
        """Join the run with its free buddy, and the result with its own, as far as it goes."""
        del self.tokens[owner]
        start, order = self._run.pop(owner)
        self.free_tokens += 1 << order
        while order + 1 < len(self._free) and start ^ 1 << order in self._free[order]:
            del self._free[order][start ^ 1 << order]
            if not self._free[order]:
                self._orders ^= 1 << order
            start &= ~(1 << order)
            order += 1
        self._free[order][start] = None
        self._orders |= 1 << order

    def owned(self, owner: int) -> int:
        """The power of two."""
        return 1 << self._run[owner][1]

    def extents(self, owner: int) -> Iterable[Extent]:
        """One."""
        yield Extent(self._run[owner][0], self.owned(owner))

    def free_extents(self) -> Iterable[Extent]:
        """Every free run, the small ones first."""
        return (Extent(start, 1 << order) for order, starts in enumerate(self._free) for start in starts)

    def check(self) -> None:
        """Also: runs are aligned, no two buddies are both free, and the bits say which orders have free runs."""
        super().check()
        for order, starts in enumerate(self._free):
            assert bool(starts) == bool(self._orders >> order & 1), self.dump()
            for start in starts:
                assert start % (1 << order) == 0, self.dump()
                assert start ^ 1 << order not in starts, self.dump()
