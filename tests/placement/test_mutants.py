"""Faults planted in the code, one at a time; each must be caught by the examination it is meant for.

A mutant is a function's own source with one piece of text replaced. If the text is gone, the mutant has to be brought
up to date: that is an error too.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from heap_simulator import assert_same, exact_means, simulate

from pagesim.sim import measures, occupancy
from pagesim.sim.allocators import Pool, allocator_class
from pagesim.sim.placement import DROPPED, REFUSED, place_all
from pagesim.sim.trace import Floats, Trace

POOL = Pool(41, 24, 4)


def busy_cases() -> Iterator[tuple[Trace, Floats]]:
    """Small traces that fill POOL, with times on a grid of tenths, so that ties are many."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        arrival = np.sort(rng.integers(0, 30, 14)) / 10
        trace = Trace(arrival, rng.integers(1, 12, 14), rng.integers(1, 12, 14))
        yield trace, rng.integers(1, 25, 14) / 10


def run_with_check(name: str, growth: Any) -> None:
    """`--check`: the account and every allocator's own check, as the run goes."""
    for case in busy_cases():
        place_all(*case, allocator_class(name)(POOL), growth, check=True)


def compare_story(name: str, growth: Any) -> None:
    """The brute-force comparison."""
    for case in busy_cases():
        story = simulate(*case, allocator_class(name)(POOL), growth)
        assert_same(story, place_all(*case, allocator_class(name)(POOL), growth))


def compare_account(name: str, growth: Any) -> None:
    """Time averages against exact fractions."""
    edges = np.array([0.0, 0.5, 1.25, 3.0, 6.0])
    for case in busy_cases():
        wanted = exact_means(*case, simulate(*case, allocator_class(name)(POOL), growth), 41, growth, edges)
        log = place_all(*case, allocator_class(name)(POOL), growth)
        got = occupancy.occupancy(*case, log, 41, growth, edges)
        for share, values in wanted.items():
            assert getattr(got, share) == pytest.approx([float(v) for v in values], abs=1e-9), share


def compare_figures(name: str, growth: Any) -> None:
    """The counts and the window of `measure`, after a warm-up of four tenths."""
    for trace, residence in busy_cases():
        log = place_all(trace, residence, allocator_class(name)(POOL), growth)
        got = measures.measure(trace, residence, log, 41, 24, growth, 0.4)
        begin = 0.4 * trace.arrival_s[-1]
        late = [i for i, at in enumerate(trace.arrival_s) if at >= begin]
        assert got.requests == len(late)
        assert got.refused == sum(log.outcome[i] == REFUSED for i in late) == got.refused_by_length.sum()
        assert got.dropped == sum(log.outcome[i] == DROPPED for i in late)
        assert got.means.edges_s.tolist() == [begin, trace.arrival_s[-1]]


@dataclass(frozen=True)
class Mutant:
    """In `where` (module:function or module:Class.method) `old` becomes `new`; `caught` with this allocator."""

    where: str
    old: str
    new: str
    caught: Callable[[str, Any], None]
    name: str
    growth: str = "final"


MUTANTS = {
    "a release that loses a block": Mutant(
        "allocators.paged:Paged.release", "self._free += table", "self._free += table[1:]", run_with_check, "paged"
    ),
    "a block handed out twice": Mutant(
        "allocators.paged:Paged.place", "del free[-count:]", "pass", run_with_check, "paged"
    ),
    "a block too many where the tokens fill the last": Mutant(
        "allocators.paged:Paged.place", "-(-tokens // self._size)", "tokens // self._size + 1", run_with_check, "paged"
    ),
    "a block too few": Mutant(
        "allocators.paged:Paged.place", "-(-tokens // self._size)", "tokens // self._size or 1", run_with_check, "paged"
    ),
    "growth that is not counted": Mutant(
        "allocators.paged:Paged.grow",
        "self.free_tokens -= missing * self._size", "pass", run_with_check, "paged", "token",
    ),
    "a reservation that never comes back": Mutant(
        "allocators.reservation:Reservation.release",
        "self._free.append(self._start.pop(owner))", "self._start.pop(owner)", run_with_check, "reservation",
    ),
    "buddies that are not joined": Mutant(
        "allocators.buddy:Buddy.release", "while order + 1", "while False and order + 1", run_with_check, "buddy"
    ),
    "a buddy joined with the wrong one": Mutant(
        "allocators.buddy:Buddy.release", "start &= ~(1 << order)", "pass", run_with_check, "buddy"
    ),
    "a run not joined with the one before": Mutant(
        "allocators.free_runs:FreeRuns.give", "self._start.pop(start, None)", "None", run_with_check, "exact-fit"
    ),
    "a run not joined with the one behind": Mutant(
        "allocators.runs_by_size:RunsBySize.give",
        "if start + size in self._size:", "if False:", run_with_check, "exact-fit:best",
    ),
    "the largest run forgotten when it shrinks": Mutant(
        "allocators.free_runs:FreeRuns.take", "self._lower(index)", "pass", run_with_check, "exact-fit:worst"
    ),
    "compaction that leaves an owner where it was": Mutant(
        "allocators.exact_fit:ExactFit._slide_down",
        "self._run[owner] = (end, size)", "pass", run_with_check, "exact-fit:first:compact",
    ),
    "the oldest dropped in place of the youngest": Mutant(
        "placement:_GrowingRun.grow",
        "next(reversed(self.live))", "next(iter(self.live))", compare_story, "paged", "token",
    ),
    "an arrival before a departure at one instant": Mutant(
        "placement:_Run.start", "URGENT", "NORMAL + 1", compare_story, "reservation"
    ),
    "delays in place of times": Mutant(
        "placement:_Clock.at", "(time_s,", "(self._now + (time_s - self._now),", compare_story, "paged", "token"
    ),
    "a slot for the last token": Mutant(
        "placement:_GrowingRun.await_growth", "number < outputs", "number <= outputs", compare_story, "paged", "token"
    ),
    "growth a token late": Mutant(
        "placement:_GrowingRun.await_growth", "self.trace.prompt_tokens[owner]) + 1",
        "self.trace.prompt_tokens[owner]) + 2", compare_story, "paged", "token",
    ),
    "a drop that is logged at the arrival": Mutant(
        "placement:_Run.log", "end_s[dropped] = ", "end_s[:0] = ", compare_story, "paged", "token"
    ),
    "a refusal that tells a slot too few": Mutant(
        "placement:_Run.start", "asked[owner], free,", "asked[owner], free - 1,", compare_story, "exact-fit"
    ),
    "internal not subtracted": Mutant(
        "occupancy:occupancy",
        "used_mean = owned_mean - internal_mean", "used_mean = owned_mean", compare_account, "buddy",
    ),
    "internal not counted": Mutant(
        "occupancy:occupancy", "np.maximum(owned - final, 0)", "0 * owned", compare_account, "reservation"
    ),
    "internal of later blocks not counted": Mutant(
        "placement:_GrowingRun.grow",
        "max(after - final, 0) - max(before - final, 0)", "0", compare_account, "paged", "token",
    ),
    "tokens a step early": Mutant(
        "occupancy:_used_while_growing", "np.arange(1, counts.sum() + 1)", "np.arange(counts.sum())",
        compare_account, "exact-fit", "token",
    ),
    "an interval's own steps forgotten": Mutant(
        "occupancy:_Steps.means", "- self._moment[1:-1]", "- 0 * self._moment[1:-1]", compare_account, "paged"
    ),
    "the warm-up ignored in the counts": Mutant(
        "measures:measure", "trace.arrival_s >= begin_s", "trace.arrival_s >= 0", compare_figures, "reservation"
    ),
    "the warm-up ignored in the means": Mutant(
        "measures:measure", "np.array([begin_s, end_s])", "np.array([0.0, end_s])", compare_figures, "reservation"
    ),
    "refusals of the warm-up counted by length": Mutant(
        "measures:measure", "log.refusals[counted[log.refusals[\"request\"]]]", "log.refusals", compare_figures, "paged"
    ),
}  # fmt: skip


def plant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    module_name, _, path = mutant.where.partition(":")
    module = sys.modules[f"pagesim.sim.{module_name}"]
    owner: Any = module
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert mutant.old in source, f"{mutant.where} no longer says {mutant.old!r}: bring the mutant up to date"
    code = compile(source.replace(mutant.old, mutant.new), mutant.where, "exec", __future__.annotations.compiler_flag)
    names: dict[str, Any] = {}
    exec(code, vars(module), names)
    monkeypatch.setattr(owner, name, names[name])


@pytest.mark.parametrize("title", MUTANTS)
def test_the_fault_is_caught(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[title]
    plant(mutant, monkeypatch)
    with pytest.raises(AssertionError):
        mutant.caught(mutant.name, mutant.growth)


@pytest.mark.parametrize("examine", sorted({m.caught for m in MUTANTS.values()}, key=lambda f: f.__name__))
def test_without_a_fault_nothing_is_caught(examine: Callable[[str, Any], None]) -> None:
    for name, growth in sorted({(m.name, m.growth) for m in MUTANTS.values()}):
        examine(name, growth)


def test_a_mutant_whose_text_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mutant("placement:_Run.log", "no such text", "", compare_story, "paged")
    with pytest.raises(AssertionError, match="bring the mutant up to date"):
        plant(gone, monkeypatch)
