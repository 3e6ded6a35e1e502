"""Someone's own allocator, by `module:Class`: what it is told, that it runs beside the others, how it is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagesim.sim.allocators import Paged, Pool, allocator_class, builtin_names, in_order
from pagesim.sim.config import PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.placement import place_all
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.sim.trace import Trace

ADD_ON = '''
"""Two allocators of a student: the highest run that is large enough, for the final length or for the longest."""
from pagesim.sim.allocators import Allocator, Extent, OracleAllocator


class _Highest:
    def __init__(self, pool):
        super().__init__(pool)
        self.slots = [None] * pool.capacity_tokens

    def _take(self, owner, tokens, size):
        for start in reversed(range(len(self.slots) - size + 1)):
            if set(self.slots[start : start + size]) == {None}:
                self.slots[start : start + size] = [owner] * size
                self.tokens[owner], self.free_tokens = tokens, self.free_tokens - size
                return True
        return False

    def _runs(self, of):
        at = [k for k, owner in enumerate([*self.slots, "end"]) if owner == of]
        starts = [k for k in at if k - 1 not in at]
        return [Extent(k, next(n for n in range(len(self.slots) + 1) if k + n not in at)) for k in starts]

    @property
    def largest_free_run(self):
        return max((run.tokens for run in self._runs(None)), default=0)

    def grow(self, owner, tokens):
        self.tokens[owner] = tokens
        return True

    def release(self, owner):
        self.free_tokens += self.owned(owner)
        self.slots = [None if name == owner else name for name in self.slots]
        del self.tokens[owner]

    def owned(self, owner):
        return self.slots.count(owner)

    def extents(self, owner):
        return self._runs(owner)

    def free_extents(self):
        return self._runs(None)


class Blind(_Highest, Allocator):
    def place(self, owner, tokens):
        return self._take(owner, tokens, self.pool.max_model_len)


class Oracle(_Highest, OracleAllocator):
    def place(self, owner, tokens, final_tokens):
        return self._take(owner, tokens, final_tokens)


class Forgetful(Blind):
    def release(self, owner):
        del self.tokens[owner]
        self.slots = [None if name == owner else name for name in self.slots]


class Raises(Blind):
    def place(self, owner, tokens):
        raise ZeroDivisionError("mine")


class Leaves(Blind):
    def place(self, owner, tokens):
        raise SystemExit(0)


class Unmade(Blind):
    def __init__(self, pool):
        raise ZeroDivisionError("not even made")


class Half(Allocator):
    def place(self, owner, tokens):
        return False


class Stranger:
    pass


number = 7
'''

SMALL = RunConfig(
    load="1.2",
    pool=PoolConfig(tokens=90, block_size=4),
    max_model_len=20,
    workload=WorkloadConfig(lengths="uniform:2:20", num_requests=120),
    num_runs=2,
)


@pytest.fixture
def addons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module's name, its folder on the import path."""
    name = f"student_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(ADD_ON)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def config(*names: str, growth: str = "final") -> RunConfig:
    return RunConfig(
        load=SMALL.load, pool=SMALL.pool, max_model_len=20, workload=SMALL.workload, num_runs=2,
        allocators=names, growth=growth,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("growth", ["final", "token"])
def test_both_kinds_run_beside_the_others_and_are_in_the_result(addons: str, growth: str) -> None:
    names = ("paged", f"{addons}:Oracle", "reservation", f"{addons}:Blind", "exact-fit")
    asked = config(*names, growth=growth)
    result = RunResult.of(asked, run(asked, check=True))
    assert list(result.allocators) == ["reservation", "exact-fit", "paged", f"{addons}:Blind", f"{addons}:Oracle"]
    assert {a.requests for a in result.allocators.values()} == {240}
    oracle, first_fit = result.allocators[f"{addons}:Oracle"], result.allocators["exact-fit"]
    assert oracle == first_fit, "the highest run is the lowest run in a mirror"
    assert oracle.refused > 0
    blind, reservation = result.allocators[f"{addons}:Blind"], result.allocators["reservation"]
    assert (blind.refused, blind.internal) == (reservation.refused, reservation.internal), "both hold four at a time"


def test_an_add_on_in_the_working_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    (tmp_path / "worked_here.py").write_text(ADD_ON)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    assert allocator_class("worked_here:Oracle")(Pool(20, 20, 4)).sees_final_length


class Recording(Paged):
    """Paged, and a diary of all that it is told."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.told: list[tuple[object, ...]] = []

    def place(self, *told: int) -> bool:  # type: ignore[override]
        self.told.append(told)
        return super().place(*told)

    def grow(self, owner: int, tokens: int) -> bool:
        self.told.append((owner, tokens))
        return super().grow(owner, tokens)


def test_a_real_allocator_is_never_told_the_final_length() -> None:
    """Two traces that differ only in how long the outputs turn out: it is told the same, until the shorter ends."""
    told = []
    for outputs in ([40, 40], [30, 30]):
        allocator = Recording(Pool(400, 60, 4))
        trace = Trace(np.array([0.0, 1.0]), np.array([5, 9]), np.array(outputs))
        place_all(trace, np.array(outputs, float), allocator, "token")
        told.append(allocator.told)
        assert all(len(row) == 2 for row in allocator.told)
        assert not {(0, 5 + outputs[0]), (1, 9 + outputs[1])} & set(allocator.told)
    shorter, longer = sorted(told, key=len)
    assert longer[: len(shorter)] == shorter and len(longer) > len(shorter)


def test_an_oracle_is_told_both_lengths(addons: str) -> None:
    allocator = allocator_class(f"{addons}:Oracle")(Pool(40, 20, 4))
    place_all(Trace(np.zeros(1), np.array([3]), np.array([9])), np.ones(1), allocator, "token", check=True)
    assert allocator.free_tokens == 40
    log = place_all(Trace(np.zeros(1), np.array([3]), np.array([9])), np.ones(1), allocator, "token")
    assert log.owned.tolist() == [12]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pagd", "allocator 'pagd' is unknown; accepted: reservation, exact-fit, .*or my_module:MyAllocator"),
        ("exact-fit:middle", "'exact-fit:middle' is unknown"),
        ("exact-fit:first:compacted", "is unknown"),
        ("", "allocator '' is unknown"),
        (":Blind", "module '' cannot be imported"),
        ("no_such_module_here:Blind", "module 'no_such_module_here' cannot be imported"),
        ("..relative:Blind", "cannot be imported"),
        ("{}:Missing", "has no Missing"),
        ("{}:", "has no"),
        ("{}:Stranger", "not a subclass of"),
        ("{}:number", "not a subclass of"),
        ("{}:Half", "an abstract class; accepted: one that defines extents, free_extents, grow, largest_free_run"),
        ("pagesim.sim.allocators:Allocator", "an abstract class"),
    ],
)
def test_what_is_no_allocator_is_refused_in_one_line(addons: str, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        allocator_class(name.format(addons))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["class Broken(:\n", "1 / 0\n", "import nothing_of_the_kind\n", "raise ValueError('a\\nb')\n"]
)
def test_a_module_that_does_not_load_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    name = f"broken_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=f"module '{name}' cannot be imported") as refused:
        allocator_class(f"{name}:Mine")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("Forgetful", AssertionError, "slots free, the largest run of|free_tokens is wrong"),
        ("Raises", ZeroDivisionError, "mine"),
        ("Unmade", ZeroDivisionError, "not even made"),
    ],
)
def test_an_add_on_that_fails_is_named(addons: str, name: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as failed:
        run(config("paged", f"{addons}:{name}"), check=True)
    assert failed.value.__notes__ == [f"raised by allocator '{addons}:{name}' in replication 1"]


def test_an_add_on_that_would_end_the_program_is_told(addons: str) -> None:
    with pytest.raises(UsageError, match="Leaves' ended the program"):
        run(config("paged", f"{addons}:Leaves"))


def test_the_order_of_names_is_that_of_the_built_in_ones_then_the_alphabet() -> None:
    assert in_order(["z:Z", "paged", "a:A", "reservation"]) == ["reservation", "paged", "a:A", "z:Z"]
    assert in_order(reversed(builtin_names())) == builtin_names()
    for name in builtin_names():
        assert allocator_class(name)(Pool(8, 4, 2)).free_tokens == 8
