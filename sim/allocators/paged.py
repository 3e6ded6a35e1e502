"""Paging: the pool is cut into blocks once; a request owns a table of them, from anywhere, and takes more to grow."""

from __future__ import annotations

from collections.abc import Iterable

from pagesim.sim.allocators.base import DUMPED, Allocator, Extent, Pool


class Paged(Allocator):
    """Blocks of `block_size` tokens; at most the last block of a request is partly empty.

    The pool's remainder, under one block, is never used. No null block is kept back: the placement experiment of the
    note hands out every block.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._size = pool.block_size
        self._free = list(reversed(range(pool.capacity_tokens // pool.block_size)))  # the last is taken first
        self.block_tables: dict[int, list[int]] = {}

    @property
    def largest_request_tokens(self) -> int:
        """Every block there is."""
        blocks = self.pool.capacity_tokens // self._size
        return min(self.pool.max_model_len, blocks * self._size)

    @property
    def largest_free_run(self) -> int:
        """All free blocks: blocks are interchangeable, so a request can be given any of them."""
        return len(self._free) * self._size or self.free_tokens

    def place(self, owner: int, tokens: int) -> bool:
        """Give the blocks that `tokens` fill, the last perhaps in part."""
        free, count = self._free, -(-tokens // self._size)
        if len(free) < count:
            return False
        self.block_tables[owner] = free[-count:]
        del free[-count:]
        self.tokens[owner] = tokens
        self.free_tokens -= count * self._size
        return True

    def grow(self, owner: int, tokens: int) -> bool:
        """Append the blocks that are missing to the owner's table."""
        table = self.block_tables[owner]
        missing = -(-tokens // self._size) - len(table)
        if missing > 0:
            if len(self._free) < missing:
                return False
            table += self._free[-missing:]
            del self._free[-missing:]
            self.free_tokens -= missing * self._size
        self.tokens[owner] = tokens
        return True

    def release(self, owner: int) -> None:
        """Take the blocks back."""
        del self.tokens[owner]
        table = self.block_tables.pop(owner)
        self._free += table
        self.free_tokens += len(table) * self._size

    def owned(self, owner: int) -> int:
        """Whole blocks."""
        return len(self.block_tables[owner]) * self._size

    def extents(self, owner: int) -> Iterable[Extent]:
        """One for each block, in the order of the table."""
        return (Extent(block * self._size, self._size) for block in self.block_tables[owner])

    def free_extents(self) -> Iterable[Extent]:
        """The free blocks, and the remainder at the end of the pool."""
        yield from (Extent(block * self._size, self._size) for block in self._free)
        remainder = self.pool.capacity_tokens % self._size
        if remainder:
            yield Extent(self.pool.capacity_tokens - remainder, remainder)

    def check(self) -> None:
        """The same as the general check, by block: each is in one table, or free, once; no table is short or long."""
        blocks = [*self._free, *(block for table in self.block_tables.values() for block in table)]
        assert sorted(blocks) == list(range(self.pool.capacity_tokens // self._size)), self.dump()
        assert self.free_tokens == self.pool.capacity_tokens - self._size * (len(blocks) - len(self._free)), self.dump()
        assert self.tokens.keys() == self.block_tables.keys(), self.dump()
        for owner, tokens in self.tokens.items():
            slots = len(self.block_tables[owner]) * self._size
            assert slots - self._size < tokens <= slots, f"owner {owner}: {tokens} in {slots} slots\n{self.dump()}"

    def dump(self) -> str:
        """Block numbers, not addresses."""
        owners = list(self.tokens.items())
        rows = [f"{owner}: {n} tokens in blocks {self.block_tables.get(owner)}" for owner, n in owners[:DUMPED]]
        counts = f"free_tokens {self.free_tokens}, {len(self._free)} free blocks, {len(owners)} owners, the first:"
        return "\n".join([f"{self.pool}, {counts}", *rows])
