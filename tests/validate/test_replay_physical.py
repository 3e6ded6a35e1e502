"""The engine with a model: its steps, and every slot of its pool, are those that were simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from replayed import golden

torch = pytest.importorskip("torch", reason="the engine's model needs torch, an extra")

from pagesim.engine.engine import Engine  # noqa: E402
from pagesim.engine.paged_cache import PagedCache  # noqa: E402
from pagesim.sim.serving.config import ServingConfig  # noqa: E402
from pagesim.sim.serving.steptime import LinearStep  # noqa: E402
from pagesim.sim.serving.timeline import Timeline  # noqa: E402
from pagesim.sim.trace import HashIds, Trace  # noqa: E402
from pagesim.validate.replay import words  # noqa: E402
from pagesim.validate.replay.experiment import Experiment  # noqa: E402
from pagesim.validate.replay.logical import replay_logically  # noqa: E402
from pagesim.validate.replay.physical import Physical, replay_physically  # noqa: E402
from pagesim.validate.replay.pool_account import Account, PoolReader, PoolSample  # noqa: E402
from pagesim.validate.replay.result import ReplayResult  # noqa: E402
from pagesim.validate.replay.rules import engine_config, over_engine_blocks  # noqa: E402
from pagesim.validate.replay.simulated import simulate  # noqa: E402

T4 = LinearStep(7.825e-3, 35.74e-6, 127.0e-9, 17.2e-6)
RULES: dict[str, dict[str, Any]] = {
    "paged": {},
    "prefix caching": {"prefix_caching": True},
    "small chunks, prefix caching": {"prefix_caching": True, "token_budget": 64, "long_prefill_threshold": 40},
    "reservation": {"allocator": "reservation"},
    "exact-fit:best": {"allocator": "exact-fit:best"},
    "forks": {"fork": "cow"},
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def experiment(rules: str) -> Experiment:
    """Sixty requests in a pool for a few, whose prompts begin alike."""
    rng = np.random.default_rng(5)
    arrival_s, prompt, output = np.cumsum(rng.exponential(0.02, 60)), rng.integers(1, 200, 60), rng.integers(1, 60, 60)
    ids = HashIds.of([rng.integers(0, 3, -(-int(size) // 32)).tolist() for size in prompt])
    n = rng.integers(1, 4, 60) if rules == "forks" else None
    trace = Trace(arrival_s, prompt, output, hash_ids=ids, hash_block_tokens=32, n=n)
    config = ServingConfig(**{"num_blocks": 61, "max_model_len": 300, "max_num_seqs": 64} | RULES[rules])
    return Experiment(trace, config, T4)


def replayed(of: Experiment) -> Physical:
    return replay_physically(of, simulate(of), Engine(engine_config(of.config, "random:tiny"), audit=True))


@pytest.mark.parametrize("rules", RULES)
def test_steps_and_slots(rules: str) -> None:
    of = experiment(rules)
    found = replayed(of)
    assert found.logical.findings == () and found.logical.divergence is None
    assert len(found.samples) == 200 and all(sample.agrees for sample in found.samples)
    assert any(sample.engine.used > 400 for sample in found.samples)
    for sample in found.samples:
        assert sum((sample.engine.used, sample.engine.reserved, sample.engine.internal, sample.engine.free)) == 960


@pytest.mark.parametrize("name", ["tiny_preempt", "tiny_prefix", "tiny_chunked_prefix", "cache_salts"])
def test_recordings(name: str) -> None:
    assert replayed(golden(name)).agrees


def test_the_engine_tells_how_many_blocks_there_are() -> None:
    for allocator, null in (("paged", 0), ("reservation", 1)):
        rules = ServingConfig(max_model_len=256, allocator=allocator)
        engine = Engine(engine_config(rules, "random:tiny", kv_bytes=2**20), audit=True)
        told = over_engine_blocks(rules, engine.account.num_blocks)
        assert engine.account.num_blocks == 64 and told.num_blocks == 64 + null
        assert told.usable_tokens == engine.cache.num_rows * engine.cache.row_tokens - (16 if null == 0 else 0)


def test_a_slot_that_is_written_elsewhere_is_misplaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from pagesim.engine import runner

    original = runner.make_batch

    def beside(chunks: Any, *more: Any) -> Any:
        batch = original(chunks, *more)
        return batch if len(chunks) < 3 else original(chunks[1:], *more)

    of = experiment("reservation")
    monkeypatch.setattr(runner, "make_batch", beside)
    found = replayed(of)
    assert not found.agrees


def test_old_tokens_are_not_counted_as_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without wiping, what an earlier owner left behind looks like a token: the account sees it."""
    monkeypatch.setattr(PoolReader, "wipe", lambda self, step: None)
    of = experiment("paged")
    found = replayed(of)
    assert found.logical.agrees and not found.agrees
    assert any(sample.misplaced for sample in found.samples)
    assert replay_logically(of).agrees and not ReplayResult("", "", of, replay_logically(of), found).agrees
    lines = words.findings(ReplayResult("", "", of, replay_logically(of), found))
    assert len(lines) == 1 and lines[0].startswith("pool, step ") and "accounts differ" in lines[0]


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("part", ["K and V", "K"])
def test_a_layer_that_is_not_written_tears_every_token(part: str, place: int) -> None:
    """K without V, or one layer without the others, is no token, whichever layer it is."""
    of = experiment("paged")
    engine = Engine(engine_config(of.config, "random:tiny"), audit=True)
    layer = engine.tensors.layers[place]
    assert len(engine.tensors.layers) > 1
    reader = PoolReader(engine)
    for other in engine.tensors.layers:
        other.zero_()
    slots = np.arange(32)
    full, empty = reader._read(slots)
    assert full.all() and not empty.any()
    layer[:, : 2 if part == "K and V" else 1] = float("nan")  # [blocks, K and V, place, width]
    full, empty = reader._read(slots)
    assert not full.any() and not empty.any()


def test_a_wrong_account_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Timeline.used_tokens.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Timeline, "used_tokens", property(lambda self: original(self) + 1))
    found = replayed(golden("tiny_prefix"))
    assert found.logical.agrees and not any(sample.agrees for sample in found.samples)


def test_a_fault_of_the_engine_shows_with_the_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    of = experiment("prefix caching")
    original = PagedCache.admit
    monkeypatch.setattr(PagedCache, "admit", lambda self, *a: original(self, *a[:4], a[4] + 3))
    found = replayed(of)
    assert found.logical.divergence is not None and not found.agrees
    assert not replace(found, samples=()).agrees, "its accounts aside"


def test_an_account_agrees_if_every_slot_does() -> None:
    account = Account(3, 2, 1, 4)
    assert PoolSample(0, 0.0, account, account, 0, 0).agrees
    assert not PoolSample(0, 0.0, account, account, 1, 0).agrees
    assert not PoolSample(0, 0.0, account, account, 0, 1).agrees
    for field in ("used", "reserved", "internal", "free"):
        assert not PoolSample(0, 0.0, replace(account, **{field: 9}), account, 0, 0).agrees
