"""Reservation and exact fit: which run is cut, and a naive map of the pool beside it."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from without_model import sequence

from pagesim.engine.contiguous_cache import ContiguousCache
from pagesim.engine.errors import MemoryBudgetError
from pagesim.engine.sequence import Sequence

FITS: list[str] = ["first", "best", "next", "worst"]


def of_length(num_slots: int) -> Sequence:
    """A sequence that holds `num_slots` in the end."""
    return sequence("s", 1, num_slots)


def admit(cache: ContiguousCache, new: Sequence, keep_free: int = 0) -> bool:
    placed = cache.admit(new, [], 1, 1, keep_free)
    cache.check()
    return placed


def with_holes(fit: str) -> ContiguousCache:
    """Free: 3 slots at 0, 5 at 5, 2 at 12, 6 at 16, up to the end; the last search ended at 9."""
    cache = ContiguousCache(22, fit="first")
    rows = [of_length(length) for length in (3, 2, 5, 2, 2, 2)]
    for each in rows:
        assert admit(cache, each)
    for each in rows[::2]:
        cache.free(each)
        cache.check()
    probe = of_length(4)
    assert admit(cache, probe) and probe.first_slot == 5  # so the last search ended at 9
    cache.free(probe)
    cache.fit = fit
    return cache


@pytest.mark.parametrize(
    ("fit", "expected"), [("first", [0, 5]), ("best", [12, 5]), ("next", [12, 16]), ("worst", [16, 5])]
)
def test_each_fit_chooses_its_run(fit: str, expected: list[int]) -> None:
    cache = with_holes(fit)
    placed = [of_length(2), of_length(4)]
    assert [admit(cache, each) for each in placed] == [True, True]
    assert [each.first_slot for each in placed] == expected


def test_next_fit_starts_again_from_the_bottom() -> None:
    cache = with_holes("next")
    placed = [of_length(6), of_length(2)]
    assert [admit(cache, each) for each in placed] == [True, True]
    assert [each.first_slot for each in placed] == [16, 0]


def test_free_slots_may_be_enough_and_yet_useless() -> None:
    cache = with_holes("first")
    assert cache.largest_free_run == 6 and cache.blocks_used == 6
    assert not admit(cache, of_length(7))


def test_an_exact_fit_is_as_long_as_the_sequence_will_be() -> None:
    cache = ContiguousCache(40)
    first, second = sequence("a", 10, 6), sequence("b", 3, 4)
    assert admit(cache, first) and admit(cache, second)
    assert second.first_slot == 15 and cache.blocks_used == 15 + 6


def test_a_reservation_is_as_long_as_any_may_be() -> None:
    cache = ContiguousCache(35, reservation=16)
    first, second = sequence("a", 1, 1), sequence("b", 1, 1)
    assert admit(cache, first) and not admit(cache, second, keep_free=1) and admit(cache, second)
    assert (first.first_slot, second.first_slot, cache.blocks_used, cache.num_blocks) == (0, 16, 2, 2)
    assert not admit(cache, sequence("c", 1, 1))


def test_blocks_to_keep_free_are_kept() -> None:
    cache = ContiguousCache(10)
    assert not admit(cache, of_length(8), keep_free=3)
    assert admit(cache, of_length(7), keep_free=3)


@pytest.mark.parametrize(
    ("num_slots", "reservation", "message"),
    [
        (15, 16, "a pool of 15 tokens holds no reservation of max_model_len 16; accepted: max_model_len up to 15"),
        (0, 16, "a pool of 0 tokens is empty; accepted: at least 1"),
        (0, None, "a pool of 0 tokens is empty; accepted: at least 1"),
    ],
)
def test_a_pool_holds_at_least_one(num_slots: int, reservation: int | None, message: str) -> None:
    with pytest.raises(MemoryBudgetError) as error:
        ContiguousCache(num_slots, reservation=reservation)
    assert str(error.value) == message


class AgainstMap(RuleBasedStateMachine):
    """A pool as a list of owners, slot by slot."""

    SIZE = 30

    @initialize(fit=st.sampled_from(FITS), reservation=st.sampled_from([None, None, None, 7]))
    def make(self, fit: str, reservation: int | None) -> None:
        self.cache = ContiguousCache(self.SIZE, fit=fit, reservation=reservation)
        self.reservation = reservation
        self.map: list[int | None] = [None] * self.SIZE
        self.live: dict[int, Sequence] = {}
        self.count = 0
        self.ended = 0

    def runs(self) -> list[tuple[int, int]]:
        """(start, length) of every free run."""
        text = "".join("." if owner is None else "x" for owner in self.map)
        starts = [i for i, c in enumerate(text) if c == "." and (i == 0 or text[i - 1] == "x")]
        return [(i, len(text[i:]) - len(text[i:].lstrip("."))) for i in starts]

    def expected(self, length: int) -> int | None:
        fitting = [(start, size) for start, size in self.runs() if size >= length]
        ahead = [run for run in fitting if run[0] >= self.ended]
        orders = {
            "first": lambda: fitting,
            "best": lambda: sorted(fitting, key=lambda run: run[1]),
            "worst": lambda: sorted(fitting, key=lambda run: -run[1]),
            "next": lambda: ahead + fitting,
        }
        return orders[self.cache.fit]()[0][0] if fitting else None

    @rule(length=st.integers(1, 7))
    def place(self, length: int) -> None:
        new = of_length(length)
        taken = self.reservation or length
        expected = self.expected(taken)
        assert self.cache.admit(new, [], 1, 1, 0) == (expected is not None)
        assert new.first_slot == expected
        if expected is not None:
            self.count += 1
            self.live[self.count] = new
            self.map[expected : expected + taken] = [self.count] * taken
            self.ended = expected + taken

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.live)))
        self.cache.free(self.live.pop(number))
        self.map = [None if owner == number else owner for owner in self.map]

    @invariant()
    def agree(self) -> None:
        self.cache.check()
        held = sum(owner is not None for owner in self.map)
        assert self.cache.blocks_used * self.cache.block_size == held
        assert self.cache.largest_free_run == max((size for _, size in self.runs()), default=0)


TestAgainstMap = AgainstMap.TestCase
