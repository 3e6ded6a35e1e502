"""The paged cache under anything a scheduler may do to it: every sequence always finds its own past."""

from __future__ import annotations

import pytest
from audit import SlotMemory
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from without_model import sequence

from pagesim.engine.paged_cache import PagedCache
from pagesim.engine.prefix_hash import extend_hashes
from pagesim.engine.sequence import Sequence


def admit(cache: PagedCache, new: Sequence, num_tokens: int | None = None) -> int:
    """Admit and compute; returns the tokens found."""
    hit = cache.match(new)
    stop = num_tokens or len(new.tokens)
    assert cache.admit(new, hit, stop, stop, 0)
    new.num_computed = stop
    cache.check()
    return len(hit) * cache.block_size


def test_a_hit_leaves_one_token_to_compute() -> None:
    cache = PagedCache(12, 4, prefix_caching=True)
    prompt = list(range(12))
    assert admit(cache, sequence("a", prompt, 1)) == 0
    assert admit(cache, sequence("b", prompt, 1)) == 8
    assert admit(cache, sequence("c", [*prompt, 99], 1)) == 12
    assert cache.blocks_used == 3 + 1 + 1


@pytest.mark.parametrize("other", [{"salt": "x"}, {"adapter": "x"}, {"salt": ""}, {"adapter": "x", "salt": "x"}])
def test_salt_and_adapter_keep_equal_prompts_apart(other: dict[str, str]) -> None:
    cache = PagedCache(20, 4, prefix_caching=True)
    prompt = list(range(9))
    admit(cache, sequence("plain", prompt, 1))
    assert admit(cache, sequence("apart", prompt, 1, **other)) == 0
    assert admit(cache, sequence("again", prompt, 1, **other)) == 8


def test_salt_and_adapter_do_not_stand_for_each_other() -> None:
    roots = [{"salt": "x"}, {"adapter": "x"}, {"salt": "x', 'y"}, {"salt": "x", "adapter": "y"}, {"salt": "None"}, {}]
    hashes = {extend_hashes(sequence(str(i), [1, 2], 1, **root), 2)[0] for i, root in enumerate(roots)}
    assert len(hashes) == len(roots)


def test_the_same_tokens_behind_another_prefix_are_not_found() -> None:
    cache = PagedCache(20, 2, prefix_caching=True)
    admit(cache, sequence("a", [1, 2, 3, 4, 5], 1))
    assert admit(cache, sequence("b", [3, 4, 5], 1)) == 0


def test_hashes_grow_with_the_answer_and_are_not_made_twice() -> None:
    growing = sequence("a", [1, 2, 3], 9)
    first = list(extend_hashes(growing, 2))
    growing.tokens += [4, 5]
    assert extend_hashes(growing, 2)[:1] == first
    assert extend_hashes(growing, 2) == extend_hashes(sequence("b", [1, 2, 3, 4], 1), 2)


def test_without_caching_nothing_is_hashed() -> None:
    cache = PagedCache(20, 4)
    first = sequence("a", list(range(9)), 1)
    admit(cache, first)
    assert admit(cache, sequence("b", list(range(9)), 1)) == 0 and not first.block_hashes


def test_a_hit_that_is_free_counts_against_the_free_blocks() -> None:
    cache = PagedCache(5, 4, prefix_caching=True)
    first = sequence("a", list(range(9)), 1)
    admit(cache, first)
    cache.free(first)
    again = sequence("b", list(range(17)), 1)  # 2 blocks found and free, 3 more needed, 4 free in all
    hit = cache.match(again)
    assert len(hit) == 2 and not cache.admit(again, hit, 17, 17, 0)
    assert cache.admit(again, hit, 16, 16, 0) and cache.blocks_used == 4


def test_eight_samples_share_the_prompt_and_copy_its_tail() -> None:
    """One prompt with eight continuations stores one copy of the prompt and eight tails."""
    cache = PagedCache(200, 16)
    parent = sequence("0", 1447, 100)
    admit(cache, parent)
    samples = [parent, *(sequence(str(i), parent.prompt, 100) for i in range(1, 8))]
    for fork in samples[1:]:
        cache.fork(parent, fork)
        fork.num_computed = parent.num_computed
    assert cache.blocks_used == 91
    for each in samples:
        assert cache.grow(each, 1447, 1448)
    pairs = cache.take_copies()
    assert len(pairs) == 7 and {source for source, _ in pairs} == {samples[-1].block_table[-1]}
    assert cache.blocks_used == 90 + 8 and cache.take_copies() == ()
    cache.check()
    for each in samples:
        cache.free(each)
    cache.check()
    assert cache.blocks_used == 0


def test_a_copy_keeps_its_source_until_it_is_taken() -> None:
    cache = PagedCache(4, 4)
    parent = sequence("0", 2, 9)
    admit(cache, parent)
    fork = sequence("1", parent.prompt, 9)
    cache.fork(parent, fork)
    fork.num_computed = 2
    assert cache.grow(parent, 2, 3)
    cache.free(fork)
    assert not cache.admit(sequence("2", 5, 1), [], 5, 5, 0)  # only one block may be written now
    cache.check()
    assert len(cache.take_copies()) == 1
    cache.check()
    assert cache.blocks_used == 1


def test_a_copy_for_one_who_leaves_is_not_made() -> None:
    cache = PagedCache(4, 4)
    parent = sequence("0", 2, 9)
    admit(cache, parent)
    fork = sequence("1", parent.prompt, 9)
    cache.fork(parent, fork)
    assert cache.grow(parent, 2, 3)
    cache.free(parent)
    cache.check()
    assert cache.take_copies() == () and cache.blocks_used == 1


class Steps(RuleBasedStateMachine):
    """In each step: some grow, fork or leave, then some are admitted, then copies, writes and reads. Few tokens, so
    that prompts often agree; few blocks, so that they run out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cache = PagedCache(14, 3, prefix_caching=True)
        self.memory = SlotMemory(self.cache)
        self.live: list[Sequence] = []
        self.chunks: dict[str, tuple[Sequence, int, int]] = {}
        self.admitting = False
        self.count = 0

    def new(self, prompt: list[int], salt: str | None) -> Sequence:
        self.count += 1
        return sequence(str(self.count), prompt, 50, salt=salt)

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=20), salt=st.sampled_from([None, "x"]), data=st.data()
    )
    def admit(self, prompt: list[int], salt: str | None, data: st.DataObject) -> None:
        new = self.new(prompt, salt)
        hit = self.cache.match(new)
        start = len(hit) * self.cache.block_size
        assert start < len(prompt)
        stop = data.draw(st.integers(start + 1, len(prompt)))
        before = self.cache.pool.free_blocks
        if self.cache.admit(new, hit, stop, data.draw(st.integers(stop, len(prompt))), data.draw(st.integers(0, 2))):
            new.num_computed = start
            self.live.append(new)
            self.chunks[new.id] = (new, start, stop)
            self.admitting = True
        else:
            assert self.cache.pool.free_blocks == before and not new.block_table

    @precondition(lambda self: self.live and not self.admitting)
    @rule(data=st.data(), more=st.integers(1, 5), token=st.integers(0, 1))
    def grow(self, data: st.DataObject, more: int, token: int) -> None:
        each = data.draw(st.sampled_from(self.live))
        if each.id in self.chunks:
            return
        if each.num_computed == len(each.tokens):
            each.tokens.append(token)
        start, stop = each.num_computed, min(each.num_computed + more, len(each.tokens))
        before = list(each.block_table)
        if self.cache.grow(each, start, stop):
            self.chunks[each.id] = (each, start, stop)
        else:
            assert each.block_table == before

    @precondition(lambda self: self.live and not self.chunks)
    @rule(data=st.data(), count=st.integers(1, 3))
    def fork(self, data: st.DataObject, count: int) -> None:
        parent = data.draw(st.sampled_from(self.live))
        used = self.cache.blocks_used
        for _ in range(count):
            child = self.new(list(parent.tokens), parent.salt)
            self.cache.fork(parent, child)
            child.num_computed = parent.num_computed
            self.live.append(child)
        assert self.cache.blocks_used == used

    @precondition(lambda self: self.live and not self.admitting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.live))
        self.live.remove(each)
        self.chunks.pop(each.id, None)
        self.cache.free(each)

    @rule()
    def step(self) -> None:
        self.memory.copy(self.cache.take_copies())
        for each, start, stop in self.chunks.values():
            self.memory.write(each, start, stop)
            each.num_computed = stop
        for each in self.live:
            self.memory.read(each, each.num_computed)
        self.chunks.clear()
        self.admitting = False

    @invariant()
    def sound(self) -> None:
        self.cache.check()

    def teardown(self) -> None:
        self.step()
        for each in self.live:
            self.cache.free(each)
        self.cache.check()
        assert self.cache.blocks_used == 0


TestSteps = Steps.TestCase
