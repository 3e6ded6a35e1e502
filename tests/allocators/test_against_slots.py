"""Every allocator against its slow model, over random sequences of place, grow and release."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slot_models import ExactFitModel, PagedModel, SlotModel, model_of

from pagesim.sim.allocators import AnyAllocator, OracleAllocator, Pool, allocator_class, builtin_names

ORCA = "pagesim.sim.allocators.orca:Orca"
SEQUENCES = settings(max_examples=500, deadline=None, derandomize=True)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    capacity = draw(st.integers(8, 70))
    return Pool(capacity, draw(st.integers(2, min(capacity, 20))), draw(st.integers(1, min(capacity, 7))))


Step = tuple[int, int, int]  # what, and two numbers


@st.composite
def sequences(draw: st.DrawFn) -> list[Step]:
    """Steps from a seed: drawn one by one, hypothesis repeats itself, and pools are full of equals or empty."""
    bits = random.Random(draw(st.integers(0, 2**64 - 1))).getrandbits
    return [(bits(8), bits(8), bits(8)) for _ in range(draw(st.integers(20, 50)))]


@dataclass
class Pair:
    """An allocator and its model, driven together."""

    allocator: AnyAllocator
    model: SlotModel
    final: dict[int, int] = field(default_factory=dict)  # live owner -> final tokens
    next_owner: int = 0

    def addresses(self, owner: int) -> list[int]:
        return [at for e in self.allocator.extents(owner) for at in range(e.start, e.start + e.tokens)]

    def state(self) -> object:
        a = self.allocator
        return dict(a.tokens), {o: self.addresses(o) for o in self.final}, sorted(map(repr, a.free_extents()))

    def place(self, tokens: int, final: int) -> None:
        owner, before = self.next_owner, self.state()
        self.next_owner += 1
        a = self.allocator
        done = a.place(owner, tokens, final) if isinstance(a, OracleAllocator) else a.place(owner, tokens)
        if isinstance(self.model, PagedModel):
            assert done == self.model.enough(tokens, 0)
            permitted = None
        else:
            permitted = self.model.permitted(tokens, final)
            assert done == bool(permitted), f"{tokens} of {final} tokens placed: {done}; permitted: {permitted}"
        if not done:
            assert self.state() == before, "a refusal has changed something"
            return
        self.final[owner] = final
        given = self.addresses(owner)
        assert permitted is None or given in permitted, f"{given} is none of {permitted}"
        assert a.tokens[owner] == tokens
        self.model.give(owner, given)

    def grow(self, owner: int, tokens: int) -> None:
        before, state = self.addresses(owner), self.state()
        done = self.allocator.grow(owner, tokens)
        if isinstance(self.model, PagedModel):
            assert done == self.model.enough(tokens, len(before))
        else:
            assert done, "the room was given at the start"
        if not done:
            assert self.state() == state, "a refusal has changed something"
            return
        after = self.addresses(owner)
        assert after[: len(before)] == before, "what it held has moved"
        assert self.allocator.tokens[owner] == tokens
        self.model.give(owner, after[len(before) :])

    def release(self, owner: int) -> None:
        self.allocator.release(owner)
        self.model.release(owner)
        del self.final[owner]

    def step(self, what: int, one: int, two: int) -> None:
        """Place, grow or release."""
        live = list(self.final)
        if what % 8 < 4:
            final = min(2 + one % self.allocator.pool.max_model_len, self.allocator.largest_request_tokens)
            self.place(1 + two % final, final)
        elif live and what % 8 == 4:
            owner = live[one % len(live)]
            now, final = self.allocator.tokens[owner], self.final[owner]
            self.grow(owner, now + two % (final - now + 1))
        elif live:
            self.release(live[one % len(live)])

    def compare(self) -> None:
        allocator, model = self.allocator, self.model
        allocator.check()
        owned = {owner: model.owned(owner) for owner in self.final}
        assert {owner: sorted(self.addresses(owner)) for owner in allocator.tokens} == owned
        assert {owner: allocator.owned(owner) for owner in owned} == {owner: len(own) for owner, own in owned.items()}
        free = [at for e in allocator.free_extents() for at in range(e.start, e.start + e.tokens)]
        assert sorted(free) == [at for at, owner in enumerate(model.slots) if owner is None]
        assert allocator.free_tokens == len(free)
        assert allocator.largest_free_run == model.largest_free_run()
        self.compare_account()

    def compare_account(self) -> None:
        """capacity = used + reserved + internal + free, each counted slot by slot."""
        allocator, counts = self.allocator, {"used": 0, "reserved": 0, "internal": 0, "free": 0}
        for owner in self.model.slots:
            if owner is None:
                counts["free"] += 1
        for owner, final in self.final.items():
            for index in range(len(self.addresses(owner))):
                now = allocator.tokens[owner]
                counts["used" if index < now else "reserved" if index < final else "internal"] += 1
        account = allocator.account()
        assert sum(counts.values()) == account.capacity == allocator.pool.capacity_tokens
        assert account.used == counts["used"] and account.free == counts["free"]
        assert account.empty == counts["reserved"] + counts["internal"]
        assert account.largest_free_run == allocator.largest_free_run


def both(name: str, pool: Pool) -> Pair:
    return Pair(allocator_class(name)(pool), model_of(name, pool.capacity_tokens, pool.max_model_len, pool.block_size))


@pytest.mark.parametrize("name", [*builtin_names(), f"{ORCA}Pow2", f"{ORCA}Pow2Unbounded"])
@SEQUENCES
@given(pools(), sequences())
def test_same_decisions_addresses_and_account_as_a_list_of_slots(name: str, pool: Pool, steps: list[Step]) -> None:
    pair = both(name, pool)
    pair.compare()
    for step in steps:
        pair.step(*step)
        pair.compare()
    for owner in list(pair.final):
        pair.release(owner)
    pair.compare()
    assert pair.allocator.free_tokens == pool.capacity_tokens


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.endswith(":compact")])
@settings(SEQUENCES, max_examples=300)
@given(pools(), sequences())
def test_compaction_places_whatever_fits_in_all_and_counts_what_it_moves(
    name: str, pool: Pool, steps: list[Step]
) -> None:
    pair = both(name, pool)
    assert isinstance(pair.model, ExactFitModel)
    for step in steps:
        allocator, before = pair.allocator, dict(pair.allocator.tokens)
        owned = {owner: allocator.owned(owner) for owner in before}
        free, moved, placed = allocator.free_tokens, allocator.moved_tokens, pair.next_owner
        pair.model.moved_owners = []
        pair.step(*step)
        if pair.next_owner > placed:
            final = min(2 + step[1] % pool.max_model_len, pool.max_model_len)
            assert (pair.next_owner - 1 in pair.final) == (final <= free), "placed if and only if it fits in all"
        assert allocator.moved_tokens - moved == sum(before[owner] for owner in pair.model.moved_owners)
        assert all(allocator.owned(owner) == size for owner, size in owned.items() if owner in pair.final)
        if pair.model.moved_owners:
            assert len(list(allocator.free_extents())) <= 1, "one free run is left at most"
        pair.compare()
