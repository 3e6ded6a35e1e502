"""Planted faults, in the simulator and in the engine: each is found, and shown with the state of both sides."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from replayed import golden

from pagesim.engine import prefix_hash
from pagesim.engine import scheduler as engine_scheduler
from pagesim.engine.block_pool import BlockPool
from pagesim.engine.paged_cache import PagedCache
from pagesim.engine.scheduler import Scheduler
from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.lru import FreeQueue
from pagesim.sim.serving.pool import CountingPool
from pagesim.sim.serving.prefix_pool import PrefixPool
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.serving.walk import Walk
from pagesim.validate.replay import words
from pagesim.validate.replay.livelock import LivelyStepTime
from pagesim.validate.replay.logical import replay_logically
from pagesim.validate.replay.result import ReplayResult

Original = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """`planted`: what takes the place of `owner.name`, made from what stood there. `shows_in`: a recording's rules."""

    side: str
    what: str
    owner: Any
    name: str
    planted: Callable[[Original], Any]
    shows_in: str

    def __str__(self) -> str:
        return f"{self.side}: {self.what}"


def keep_free_nothing(original: Original) -> Original:
    def made(self: Scheduler, *parts: Any) -> None:
        original(self, *parts)
        self._keep_free = 0

    return made


def first_victim(original: Original) -> Original:
    def least(*values: Any, **key: Any) -> Any:
        return builtins.min(*values, **key) if key else builtins.max(*values)

    return least


def tail_too(original: Original) -> Original:
    def enter(self: PagedCache, sequence: Any, stop: int) -> None:
        for block in sequence.block_table:
            if (self.pool.hash_of[block] or b"").startswith(b"tail"):
                self.pool.forget(block)
        original(self, sequence, stop)
        last = sequence.block_table[-1]
        if stop % self.block_size and self.pool.hash_of[last] is None:
            self.pool.enter(last, b"tail" + sequence.id.encode())

    return enter


def uncapped_match(original: Original) -> Original:
    def match(self: PagedCache, sequence: Any) -> list[int]:
        hashes = prefix_hash.extend_hashes(sequence, self.block_size) if self.prefix_caching else []
        hit: list[int] = []
        for each in hashes[: len(sequence.tokens) // self.block_size]:
            if (block := self.pool.find(each)) is None:
                break
            hit.append(block)
        return hit

    return match


def newest_first(original: Original) -> Original:
    def take(self: BlockPool, count: int) -> list[int]:
        taken = [self._free.popitem(last=True)[0] for _ in range(count)]
        for block in taken:
            self.references[block] = 1
            self.forget(block)
        return taken

    return take


def grown_by_one(original: Original) -> Original:
    return lambda self, before, computed: original(self, before + 1 if before else 0, computed + 1)


def whole_tail(original: Original) -> Original:
    return lambda self, row, computed: original(self, row, -(-computed // self._size) * self._size)


SIM, ENGINE = "simulator", "engine"
FAULTS = [
    Fault(SIM, "growth off by one", CountingPool, "missing", grown_by_one, "chunked_64"),
    Fault(SIM, "watermark ignored", ServingConfig, "watermark_blocks", lambda of: property(lambda self: 0),
          "watermark_5pct"),
    Fault(SIM, "wrong victim", Walk, "_victim", lambda of: lambda self: next(iter(self.running.rows)), "tiny_preempt"),
    Fault(SIM, "leaked block", CountingPool, "finish",
          lambda of: lambda self, row, computed: of(self, row, computed - self._size), "tiny_preempt"),
    Fault(SIM, "tail block hashed", PrefixPool, "finish", whole_tail, "storm_cached"),
    Fault(SIM, "salt dropped", HashChains, "root", lambda of: lambda self, row: (of(self, row)[0], None),
          "cache_salts"),
    Fault(SIM, "hit cap off by one", PrefixPool, "find", lambda of: lambda self, row, tokens: of(self, row, tokens + 1),
          "aligned_full_hits"),
    Fault(SIM, "LRU order reversed", FreeQueue, "append", lambda of: lambda self, slots: of(self, slots[::-1]),
          "prefix_waves"),
    Fault(ENGINE, "growth off by one", PagedCache, "grow",
          lambda of: lambda self, sequence, start, stop: of(self, sequence, start, stop + 1), "tiny_preempt"),
    Fault(ENGINE, "watermark ignored", Scheduler, "__init__", keep_free_nothing, "watermark_5pct"),
    Fault(ENGINE, "wrong victim", engine_scheduler, "max", first_victim, "tiny_preempt"),
    Fault(ENGINE, "leaked block", BlockPool, "release", lambda of: lambda self, table: of(self, table[1:]),
          "block_multiples"),
    Fault(ENGINE, "tail block hashed", PagedCache, "_enter_full_blocks", tail_too, "storm_cached"),
    Fault(ENGINE, "salt dropped", prefix_hash, "root_hash", lambda of: lambda salt, adapter: of(None, adapter),
          "cache_salts"),
    Fault(ENGINE, "hit cap off by one", PagedCache, "match", uncapped_match, "aligned_full_hits"),
    Fault(ENGINE, "LRU order reversed", BlockPool, "take", newest_first, "prefix_waves"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = golden(fault.shows_in)
    assert replay_logically(experiment).agrees
    original = getattr(fault.owner, fault.name, None)
    monkeypatch.setattr(fault.owner, fault.name, fault.planted(original), raising=False)
    found = replay_logically(experiment)
    assert not found.agrees
    assert found.divergence is not None, found.findings
    lines = words.divergence(ReplayResult("", "", experiment, found, None))
    assert lines[0].startswith(f"first divergence, step {found.divergence.number}: ")
    assert [line.split()[0] for line in lines[1:]][-4:] == [SIM, ENGINE, SIM, ENGINE], lines


def test_a_simulator_that_breaks_off_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingPool, "place", lambda *request: False)
    found = replay_logically(golden("tiny_preempt"))
    assert found.simulated is None and found.divergence is None and not found.agrees
    (line,) = found.findings
    assert line.startswith("simulator: broke off, ")


def test_an_engine_that_goes_on_for_ever_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PagedCache, "admit", lambda *request: False)
    found = replay_logically(golden("tiny_preempt"))
    assert found.other is None and found.divergence is not None and found.divergence.number == 0
    start = "engine: broke off in step 999, AssertionError in livelock.py:"
    assert any(line.startswith(start) for line in found.findings), found.findings


def test_a_simulator_that_goes_on_for_ever_is_stopped() -> None:
    watched = LivelyStepTime(ConstantStep(1.0))
    for tokens in (*[0] * 999, 1, *[0] * 999):
        assert watched.seconds(tokens, 0, 0, tokens) == 1.0
    with pytest.raises(AssertionError, match="1000 steps in a row computed nothing"):
        watched.seconds(0, 0, 0, 0)


def test_a_broken_engine_is_a_finding_and_its_steps_so_far_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PagedCache, "take_copies", lambda self: 1 // (5 - self.pool.num_used))
    found = replay_logically(golden("tiny_preempt"))
    assert found.other is None and found.simulated is not None
    assert any(line.startswith("engine: broke off in step 0, ZeroDivisionError in ") for line in found.findings)
    assert found.divergence is not None and found.divergence.columns == ("steps",)
