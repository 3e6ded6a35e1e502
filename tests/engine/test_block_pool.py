"""The pool of blocks: the order of its free list, and a naive pool beside it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pagesim.engine.block_pool import BlockPool
from pagesim.engine.errors import MemoryBudgetError


def test_the_null_block_is_nobodys() -> None:
    pool = BlockPool(3)
    assert pool.free_blocks == (1, 2) and pool.num_free == 2
    assert pool.take(2) == [1, 2] and pool.num_used == 2


@pytest.mark.parametrize("num_blocks", [-1, 0, 1])
def test_a_pool_of_the_null_block_alone_is_refused(num_blocks: int) -> None:
    with pytest.raises(MemoryBudgetError, match=f"num_blocks is {num_blocks}; accepted: at least 2"):
        BlockPool(num_blocks)


def test_blocks_without_a_hash_go_to_the_head_the_end_of_the_table_foremost() -> None:
    pool = BlockPool(7)
    pool.release(pool.take(3))
    assert pool.free_blocks == (3, 2, 1, 4, 5, 6)


def test_blocks_with_a_hash_go_to_the_tail_the_end_of_the_chain_before_its_start() -> None:
    pool = BlockPool(7)
    table = pool.take(4)
    for block in table[:3]:
        pool.enter(block, bytes([block]))
    pool.release(table)
    assert pool.free_blocks == (4, 5, 6, 3, 2, 1)
    assert [pool.hash_of[block] is not None for block in pool.free_blocks] == [False] * 3 + [True] * 3


def test_a_hash_is_forgotten_only_when_the_block_is_taken() -> None:
    pool = BlockPool(3)
    table = pool.take(2)
    pool.enter(table[0], b"a")
    pool.release(table)
    assert pool.find(b"a") == 1
    pool.take(1)
    assert pool.find(b"a") == 1
    pool.take(1)
    assert pool.find(b"a") is None


def test_a_hit_leaves_the_free_list_and_comes_back_as_the_last_used() -> None:
    pool = BlockPool(4)
    for block in pool.take(3):
        pool.enter(block, bytes([block]))
    for block in (1, 2, 3):
        pool.release([block])
    pool.hold([1])
    assert pool.free_blocks == (2, 3)
    pool.release([1])
    assert pool.free_blocks == (2, 3, 1)


def test_a_look_up_finds_the_oldest_of_equal_blocks() -> None:
    pool = BlockPool(4)
    for block in pool.take(3):
        pool.enter(block, b"same")
    assert pool.find(b"same") == 1
    pool.release([1])
    pool.take(1)
    assert pool.find(b"same") == 2


def test_check_dumps_the_state_of_a_leak() -> None:
    pool = BlockPool(3)
    pool.take(1)
    pool.check(Counter([1]))
    with pytest.raises(AssertionError, match=r"block 1 is held 0 times: 3 blocks; held \{1: 1\}; free \[2\]"):
        pool.check(Counter())


class AgainstNaive(RuleBasedStateMachine):
    """Tables of blocks, a list for the free ones, a list of (hash, block) in order of entry."""

    NUM_BLOCKS = 9

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(self.NUM_BLOCKS)
        self.free = list(range(1, self.NUM_BLOCKS))
        self.entries: list[tuple[bytes, int]] = []
        self.tables: list[list[int]] = []

    def held(self, block: int) -> int:
        return sum(block in table for table in self.tables)

    def hashed(self, block: int) -> bool:
        return any(block == each for _, each in self.entries)

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        if count > len(self.free):
            return
        taken, self.free = self.free[:count], self.free[count:]
        assert self.pool.take(count) == taken
        self.entries = [(h, block) for h, block in self.entries if block not in taken]
        self.tables.append(taken)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(self.tables))
        self.pool.hold(table)
        self.tables.append(list(table))

    @rule(data=st.data())
    def hit(self, data: st.DataObject) -> None:
        found = [block for block in range(1, self.NUM_BLOCKS) if self.hashed(block)]
        if not found:
            return
        block = data.draw(st.sampled_from(found))
        self.pool.hold([block])
        self.free = [each for each in self.free if each != block]
        self.tables.append([block])

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), letter=st.sampled_from([b"a", b"b"]))
    def enter(self, data: st.DataObject, letter: bytes) -> None:
        block = data.draw(st.sampled_from(data.draw(st.sampled_from(self.tables))))
        if not self.hashed(block):
            self.pool.enter(block, letter)
            self.entries.append((letter, block))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        self.pool.release(table)
        freed = [block for block in reversed(table) if not self.held(block)]
        plain = [block for block in freed if not self.hashed(block)]
        self.free = plain + self.free + [block for block in freed if self.hashed(block)]

    @invariant()
    def agree(self) -> None:
        self.pool.check(Counter(block for table in self.tables for block in table))
        assert list(self.pool.free_blocks) == self.free
        assert self.pool.num_used + self.pool.num_free == self.NUM_BLOCKS - 1
        carried = [self.pool.hash_of[block] is not None for block in self.pool.free_blocks]
        assert carried == [self.hashed(block) for block in self.free]
        for letter in (b"a", b"b"):
            assert self.pool.find(letter) == next((block for h, block in self.entries if h == letter), None)


TestAgainstNaive = AgainstNaive.TestCase
