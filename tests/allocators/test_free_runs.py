"""FreeRuns and RunsBySize against a plain sorted list of runs, with many runs; finding is logarithmic by count."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pagesim.sim.allocators import free_runs
from pagesim.sim.allocators.free_runs import CHUNK, FreeRuns
from pagesim.sim.allocators.runs_by_size import RunsBySize

Run = tuple[int, int]


class RunList:
    """Free runs as a sorted list of (start, size); every question is a walk through all of it."""

    def __init__(self, capacity: int) -> None:
        self.runs: list[Run] = [(0, capacity)]

    def first(self, size: int) -> int | None:
        return next((start for start, length in self.runs if length >= size), None)

    def first_from(self, address: int, size: int) -> int | None:
        return next((start for start, length in self.runs if start >= address and length >= size), None)

    def best(self, size: int) -> int | None:
        fitting = [(length, start) for start, length in self.runs if length >= size]
        return min(fitting)[1] if fitting else None

    def largest(self) -> int:
        return max((length for _, length in self.runs), default=0)

    def take(self, start: int, size: int) -> None:
        (index,) = (k for k, run in enumerate(self.runs) if run[0] == start)
        length = self.runs[index][1]
        self.runs[index : index + 1] = [(start + size, length - size)] if length > size else []

    def give(self, start: int, size: int) -> None:
        end = start + size
        for run in [run for run in self.runs if run[0] == end or run[0] + run[1] == start]:
            self.runs.remove(run)
            start, end = min(start, run[0]), max(end, run[0] + run[1])
        self.runs = sorted([*self.runs, (start, end - start)])


class Driven:
    """A structure and the list, driven together; `owned` are the pieces that are out."""

    def __init__(self, runs: FreeRuns | RunsBySize, capacity: int) -> None:
        self.runs, self.plain, self.capacity = runs, RunList(capacity), capacity
        self.owned: list[Run] = []

    def find(self, address: int, size: int, how: str) -> int | None:
        """Ask both; the answers must agree."""
        if isinstance(self.runs, RunsBySize):
            found, wanted = self.runs.best(size), self.plain.best(size)
        elif how == "first":
            found, wanted = self.runs.first(size), self.plain.first(size)
        else:
            found, wanted = self.runs.first_from(address, size), self.plain.first_from(address, size)
        assert found == wanted, f"{how} run of {size} from {address}: {found}, not {wanted}"
        return found

    def take(self, address: int, size: int, how: str) -> None:
        start = self.find(address, size, how)
        if start is not None:
            self.runs.take(start, size)
            self.plain.take(start, size)
            self.owned.append((start, size))

    def give(self, which: int) -> None:
        if self.owned:
            self.owned[which % len(self.owned)], self.owned[-1] = self.owned[-1], self.owned[which % len(self.owned)]
            piece = self.owned.pop()
            self.runs.give(*piece)
            self.plain.give(*piece)

    def compare(self) -> None:
        self.runs.check()
        assert list(self.runs) == self.plain.runs
        assert len(self.runs) == len(self.plain.runs)
        assert self.runs.largest == self.plain.largest()


class RunsMachine(RuleBasedStateMachine):
    """Small pools; for FreeRuns small chunks too, so that they split and are cut anew within a few steps."""

    make: Any = None

    def __init__(self) -> None:
        super().__init__()
        free_runs.CHUNK = 2
        self.both = Driven(type(self).make(60), 60)

    def teardown(self) -> None:
        free_runs.CHUNK = CHUNK

    @rule(address=st.integers(0, 60), size=st.integers(1, 9), how=st.sampled_from(["first", "first_from"]))
    def take(self, address: int, size: int, how: str) -> None:
        self.both.take(address, size, how)

    @precondition(lambda self: self.both.owned)
    @rule(which=st.integers(0, 59))
    def give(self, which: int) -> None:
        self.both.give(which)

    @invariant()
    def same(self) -> None:
        self.both.compare()


def machine(make: Any) -> Any:
    case = type("Machine", (RunsMachine,), {"make": staticmethod(make)}).TestCase
    case.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
    return case


TestRunsBySizeMachine = machine(RunsBySize)

TestFreeRunsMachine = machine(FreeRuns)


class Counting(FreeRuns):
    """Counts how often the structure was split and rebuilt."""

    splits = rebuilds = 0

    def _split(self, index: int) -> None:
        self.splits += 1
        super()._split(index)

    def _rebuild(self) -> None:
        self.rebuilds += 1
        super()._rebuild()


@pytest.mark.parametrize("chunk", [2, 3, CHUNK])
@pytest.mark.parametrize("make", [Counting, RunsBySize])
def test_thousands_of_steps_on_pools_of_many_runs(make: Any, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_runs, "CHUNK", chunk)
    rng, capacity = random.Random(chunk), 16_000
    both = Driven(make(capacity), capacity)
    most = 0
    for step in range(16_000):
        taking = rng.random() < (1.0 if step % 8_000 < 4_500 else 0.3)  # it fills, then it empties, twice
        if taking:
            how = rng.choice(["first", "first_from"])
            both.take(rng.randrange(capacity), min(1 + int(rng.expovariate(0.5)), 40), how)
        else:
            both.give(rng.randrange(capacity))
        most = max(most, len(both.runs))
        if step % 100 == 0:
            both.compare()
    both.compare()
    assert most > 400, "many runs"
    if isinstance(both.runs, Counting):
        assert both.runs.splits > 10 and both.runs.rebuilds > 1
    while both.owned:
        both.give(rng.randrange(capacity))
    both.compare()
    assert list(both.runs) == [(0, capacity)]


class Counted(int):
    """A number that counts the comparisons it takes part in: how many runs or nodes a search looks at."""

    compared = 0

    def _counting(compare: Any) -> Any:  # noqa: N805
        def counted(self: int, other: object) -> Any:
            Counted.compared += 1
            return compare(self, other)

        return counted

    __lt__, __le__ = _counting(int.__lt__), _counting(int.__le__)
    __gt__, __ge__, __eq__ = _counting(int.__gt__), _counting(int.__ge__), _counting(int.__eq__)
    __hash__ = int.__hash__


def scattered(make: Any, count: int) -> tuple[Any, int]:
    """A structure with `count` free runs of 1 to 16 slots, one slot apart, and the end of its pool."""
    rng, sizes = random.Random(count), []
    for _ in range(count):
        sizes.append(rng.choice([1, 2, 3, 5, 8, 16]))
    capacity = sum(sizes) + count
    runs = make(capacity)
    runs.take(0, capacity)
    start = 0
    for size in sizes:
        runs.give(start, size)
        start += size + 1
    assert len(runs) == count
    return runs, capacity


def most_comparisons(ask: Any, questions: int, rng: random.Random) -> int:
    most = 0
    for _ in range(questions):
        Counted.compared = 0
        ask(rng)
        most = max(most, Counted.compared)
    return most


@pytest.mark.parametrize("count", [2**7, 2**9, 2**11, 2**13])
def test_finding_compares_at_most_logarithmically_often(count: int) -> None:
    runs, capacity = scattered(FreeRuns, count)
    by_size, _ = scattered(RunsBySize, count)
    rng, doublings = random.Random(1), math.log2(count)
    first = most_comparisons(lambda rng: runs.first(Counted(rng.randint(1, 17))), 300, rng)
    assert first <= CHUNK + 2 + doublings, "down the tree, then through one chunk"
    onwards = most_comparisons(
        lambda rng: runs.first_from(Counted(rng.randrange(capacity)), Counted(rng.randint(1, 17))), 300, rng
    )
    assert onwards <= 2 * CHUNK + 4 * doublings + 8, "through a chunk, up the tree, down it, through another"
    best = most_comparisons(lambda rng: by_size.best(Counted(rng.randint(1, 17))), 300, rng)
    assert best <= 4 * doublings + 8, "bisection; tuples compare twice"


def test_the_count_of_comparisons_sees_a_linear_search() -> None:
    plain = RunList(2**12)
    plain.runs = list(scattered(FreeRuns, 2**9)[0])
    assert most_comparisons(lambda _: plain.first(Counted(17)), 1, random.Random(1)) >= 2**9


def test_a_run_that_is_too_small_cannot_be_cut() -> None:
    for runs in (FreeRuns(8), RunsBySize(8)):
        with pytest.raises(AssertionError, match="the free run at 0 has 8 slots, not 9"):
            runs.take(0, 9)
