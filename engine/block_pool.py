"""The pool of blocks: who is free, how many hold each of the others, and what can be found again in the free ones.

Physical block 0 is the null block, which nobody holds. The free list is also the order of eviction: blocks are taken
from its head, and a block's hash is forgotten only then. The rules are those of vLLM 0.29 (SCHEDULER.md, The pool).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

from pagesim.engine.errors import MemoryBudgetError


class BlockPool:
    """Blocks 1 to `num_blocks - 1`, each free or held by a number of tables.

    Raises MemoryBudgetError unless there is a block beside the null block.
    """

    __slots__ = ("_by_hash", "_free", "hash_of", "num_blocks", "references")

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 2:
            raise MemoryBudgetError(f"num_blocks is {num_blocks}; accepted: at least 2, as block 0 is the null block")
        self.num_blocks = num_blocks
        self.references = [0] * num_blocks
        self.hash_of: list[bytes | None] = [None] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self._by_hash: dict[bytes, dict[int, None]] = {}  # copies of equal blocks, the oldest first

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds, whether or not they can still be found by a hash."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - 1 - len(self._free)

    @property
    def free_blocks(self) -> tuple[int, ...]:
        """The free list, the block that is taken next first."""
        return tuple(self._free)

    def take(self, count: int) -> list[int]:
        """The first `count` free blocks, now held once each, their hashes forgotten."""
        assert count <= len(self._free), self.state()
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self.references[block] = 1
            self.forget(block)
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder of each of `blocks`: a hit, which may be free, or a fork."""
        for block in blocks:
            if self.references[block] == 0:
                del self._free[block]
            self.references[block] += 1

    def release(self, table: Sequence[int]) -> None:
        """One holder less of each block of a table. Those that nobody holds any more become free, from the end on.

        Blocks with a hash go to the tail of the free list, the end of the chain before its start. The others, which
        nobody can find again, go before its head, the end of the table foremost.
        """
        references, free = self.references, self._free
        for block in reversed(table):
            references[block] -= 1
            if references[block] == 0:
                free[block] = None
        for block in table:
            if references[block] == 0 and self.hash_of[block] is None:
                free.move_to_end(block, last=False)

    def enter(self, block: int, block_hash: bytes) -> None:
        """Let a held block be found under `block_hash` from now on. Equal blocks are not merged."""
        self.hash_of[block] = block_hash
        self._by_hash.setdefault(block_hash, {})[block] = None

    def forget(self, block: int) -> None:
        """Let a block not be found any more, if it could be."""
        block_hash = self.hash_of[block]
        if block_hash is None:
            return
        self.hash_of[block] = None
        copies = self._by_hash[block_hash]
        del copies[block]
        if not copies:
            del self._by_hash[block_hash]

    def find(self, block_hash: bytes) -> int | None:
        """The oldest block that was entered under `block_hash`, or None."""
        copies = self._by_hash.get(block_hash)
        return next(iter(copies)) if copies else None

    def count_free(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` nobody holds."""
        return sum(self.references[block] == 0 for block in blocks)

    def check(self, holders: Counter[int]) -> None:
        """Raise AssertionError unless `holders`, block to number of holders, are all there are. O(num_blocks)."""
        assert 0 not in holders and 0 not in self._free and not self.references[0], f"null block: {self.state()}"
        for block in range(1, self.num_blocks):
            held = holders[block]
            assert self.references[block] == held, f"block {block} is held {held} times: {self.state()}"
            assert (block in self._free) == (held == 0), f"block {block} is held {held} times: {self.state()}"
        entered = {(h, block) for h, copies in self._by_hash.items() for block in copies}
        carried = {(h, block) for block, h in enumerate(self.hash_of) if h is not None}
        assert entered == carried and all(self._by_hash.values()), f"hashes: {self.state()}"

    def state(self) -> str:
        """All there is, for a message."""
        held = {block: count for block, count in enumerate(self.references) if count}
        hashes = {block: h.hex()[:8] for block, h in enumerate(self.hash_of) if h is not None}
        return f"{self.num_blocks} blocks; held {held}; free {list(self._free)}; hashes {hashes}"
