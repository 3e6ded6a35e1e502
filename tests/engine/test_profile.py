from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

from pagesim.engine.config import EngineConfig
from pagesim.engine.kv_cache import KvCache, token_bytes
from pagesim.engine.models.model import load_model
from pagesim.engine.profile import run_largest
from pagesim.kernels.backends import backend_named

CPU = torch.device("cpu")


@pytest.mark.parametrize(("budget", "max_num_seqs", "rows"), [(100, 16, 16), (8, 256, 8)])
def test_the_largest_batch_runs(budget: int, max_num_seqs: int, rows: int) -> None:
    """On a CPU its memory is not measured, but it is the pass that a card measures."""
    config = EngineConfig("random:tiny", token_budget=budget, max_num_seqs=max_num_seqs)
    model = load_model(config.model, "auto", CPU, 0)
    cache = KvCache.allocate(model.weights, 7, 16, audit=True)
    logits = run_largest(config, model.weights, backend_named("reference", CPU, 16), cache)
    assert logits.shape == (rows, 1024)
    assert not logits.isnan().any()


def test_the_pool_is_one_allocation_of_the_size_reckoned() -> None:
    model = load_model("random:tiny", "auto", CPU, 0)
    cache = KvCache.allocate(model.weights, 5, 16, audit=True)
    assert cache.num_bytes == 5 * 16 * token_bytes(model.weights) == 5 * 16 * 1024
    assert len({layer.untyped_storage().data_ptr() for layer in cache.layers}) == 1
    assert all(layer.isnan().all() for layer in cache.layers)
