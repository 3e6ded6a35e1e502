"""The paged cache: block tables over a pool of blocks, shared prefixes, and forks that copy before they write."""

from __future__ import annotations

from collections import Counter

from pagesim.engine.block_pool import BlockPool
from pagesim.engine.prefix_hash import extend_hashes
from pagesim.engine.sequence import Sequence


class PagedCache:
    """Blocks are taken as tokens are scheduled. With `prefix_caching`, a full block can be found from then on.

    Raises MemoryBudgetError unless there is a block beside the null block.
    """

    is_paged = True

    def __init__(self, num_blocks: int, block_size: int, *, prefix_caching: bool = False) -> None:
        self.pool = BlockPool(num_blocks)
        self.num_rows = self.num_blocks = num_blocks
        self.row_tokens = self.block_size = block_size
        self.prefix_caching = prefix_caching
        self._holders: dict[str, Sequence] = {}
        self._copies: dict[int, int] = {}  # target -> source, each held until the copy is taken

    @property
    def blocks_used(self) -> int:
        """Blocks that somebody holds; a shared one counts once, a cached one that nobody holds not at all."""
        return self.pool.num_used

    @property
    def max_slots(self) -> int:
        """Slots of the longest sequence that an otherwise empty pool holds."""
        return (self.num_blocks - 1) * self.block_size

    def match(self, sequence: Sequence) -> list[int]:
        """The longest run of cached blocks from the first on. At least one token is left to compute."""
        if not self.prefix_caching:
            return []
        hashes = extend_hashes(sequence, self.block_size)
        hit: list[int] = []
        for block_hash in hashes[: (len(sequence.tokens) - 1) // self.block_size]:
            block = self.pool.find(block_hash)
            if block is None:
                break
            hit.append(block)
        return hit

    def admit(self, sequence: Sequence, hit: list[int], stop: int, room: int, keep_free: int) -> bool:
        """Hold the hit and take blocks for the rest. Hit blocks that are free leave the free list, so they count."""
        assert not sequence.block_table
        needed = self._blocks(room) - len(hit) + self.pool.count_free(hit)
        if needed + keep_free > self.pool.num_free:
            return False
        self.pool.hold(hit)
        sequence.block_table = hit + self.pool.take(self._blocks(stop) - len(hit))
        sequence.num_entered = len(hit)
        self._holders[sequence.id] = sequence
        if self.prefix_caching:
            self._enter_full_blocks(sequence, stop)
        return True

    def grow(self, sequence: Sequence, start: int, stop: int) -> bool:
        """Take the blocks that are missing, and a private one in place of a shared partial block."""
        table, pool = sequence.block_table, self.pool
        missing = -(-stop // self.block_size) - len(table)
        first = start // self.block_size
        shared = first < len(table) and pool.references[table[first]] > 1 and self._is_shared(table[first])
        if missing + shared > pool.num_free:
            return False
        if shared:
            self._make_private(table, first)
        if missing:
            table += pool.take(missing)
        if self.prefix_caching:
            self._enter_full_blocks(sequence, stop)
        return True

    def free(self, sequence: Sequence) -> None:
        """Let go of the table. What it shares stays with the others; a copy that nobody awaits any more is not made.

        Full blocks that were scheduled and will not be computed, as `num_computed` tells, cannot be found any more.
        """
        del self._holders[sequence.id]
        for index in range(sequence.num_computed // self.block_size, sequence.num_entered):
            self.pool.forget(sequence.block_table[index])
        self.pool.release(sequence.block_table)
        for target in [block for block in sequence.block_table if block in self._copies]:
            self.pool.release([self._copies.pop(target)])
        sequence.block_table = []
        sequence.num_entered = 0

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Hold the parent's blocks once more, the partial last one too."""
        assert not child.block_table
        child.block_table = parent.block_table[: self._blocks(parent.num_computed)]
        child.block_hashes = list(parent.block_hashes)
        child.num_entered = parent.num_entered
        self.pool.hold(child.block_table)
        self._holders[child.id] = child

    def take_copies(self) -> tuple[tuple[int, int], ...]:
        """Pairs (source, target), then forgotten. Until now the sources were kept from being written by others."""
        if not self._copies:
            return ()
        pairs = tuple((source, target) for target, source in self._copies.items())
        self._copies.clear()
        for source, _ in pairs:
            self.pool.release([source])
        return pairs

    def check(self) -> None:
        """Raise AssertionError, with the state, if a block is leaked, or held by others than its reference count."""
        holders = Counter(block for sequence in self._holders.values() for block in sequence.block_table)
        holders.update(self._copies.values())
        self.pool.check(holders)
        for sequence in self._holders.values():
            table = sequence.block_table
            assert len(set(table)) == len(table), f"{sequence} holds a block twice: {table}"
            for block, block_hash in zip(table[: sequence.num_entered], sequence.block_hashes, strict=False):
                assert self.pool.hash_of[block] == block_hash, f"{sequence}: block {block}: {self.pool.state()}"

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _is_shared(self, block: int) -> bool:
        """Whether another table has it too. Copies that still have to read it do so before this step writes."""
        return self.pool.references[block] - list(self._copies.values()).count(block) > 1

    def _make_private(self, table: list[int], index: int) -> None:
        """Copy on write. The reference to the source passes from the table to the copy, which still must read it."""
        (target,) = self.pool.take(1)
        self._copies[target] = table[index]
        table[index] = target

    def _enter_full_blocks(self, sequence: Sequence, stop: int) -> None:
        num_full = stop // self.block_size
        if sequence.num_entered < num_full:
            hashes = extend_hashes(sequence, self.block_size)
            for index in range(sequence.num_entered, num_full):
                self.pool.enter(sequence.block_table[index], hashes[index])
            sequence.num_entered = num_full
