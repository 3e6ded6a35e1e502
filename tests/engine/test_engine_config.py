"""The engine's options: what is refused, and the one line that says so."""

from __future__ import annotations

import pytest

from pagesim.engine.cache_manager import make_cache
from pagesim.engine.config import EngineConfig
from pagesim.engine.contiguous_cache import ContiguousCache
from pagesim.engine.errors import ConfigError, EngineError, MemoryBudgetError
from pagesim.engine.paged_cache import PagedCache

KINDS = "paged, reservation, exact-fit, exact-fit:first, exact-fit:best, exact-fit:next, exact-fit:worst"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size is 0; accepted: at least 1"),
        ({"token_budget": -5}, "token_budget is -5; accepted: at least 1"),
        ({"long_prefill_threshold": 0}, "long_prefill_threshold is 0; accepted: at least 1"),
        ({"watermark": 1.0}, "watermark is 1.0; accepted: from 0 to below 1"),
        ({"watermark": float("nan")}, "watermark is nan; accepted: from 0 to below 1"),
        ({"utilization": 0.0}, "utilization is 0.0; accepted: above 0, at most 1"),
        ({"policy": "lifo"}, "policy is 'lifo'; accepted: fcfs, priority"),
        ({"backend": "cuda"}, "backend is 'cuda'; accepted: reference, triton"),
        ({"cache": "buddy"}, f"cache is 'buddy'; accepted: {KINDS}"),
        ({"cache": "paged:best"}, f"cache is 'paged:best'; accepted: {KINDS}"),
        ({"cache": "exact-fit:last"}, f"cache is 'exact-fit:last'; accepted: {KINDS}"),
        ({"num_blocks": 9, "memory": 9}, "num_blocks and memory are both given; accepted: the pool told one way"),
        (
            {"cache": "reservation", "prefix_caching": True},
            "prefix_caching with cache 'reservation'; accepted: with 'paged', whose blocks are shared",
        ),
        (
            {"long_prefill_threshold": 9, "chunked_prefill": False},
            "long_prefill_threshold is 9 without chunked_prefill; accepted: with it",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        EngineConfig("random:tiny", **options)  # type: ignore[arg-type]
    assert str(error.value) == message and isinstance(error.value, EngineError)


def test_all_managers_share_out_the_same_pool() -> None:
    made = {
        name: make_cache(EngineConfig("random:tiny", cache=name), 64, 256)
        for name in ("paged", "reservation", "exact-fit:best")
    }
    assert isinstance(made["paged"], PagedCache)
    assert all(cache.num_rows * cache.row_tokens == 1024 for cache in made.values())
    assert [(cache.num_blocks, cache.block_size) for cache in made.values()] == [(64, 16), (4, 256), (1024, 1)]
    assert [cache.max_slots for cache in made.values()] == [63 * 16, 256, 1024]


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("exact-fit", "first"), ("exact-fit:first", "first"), ("exact-fit:best", "best"),
        ("exact-fit:next", "next"), ("exact-fit:worst", "worst"),
    ],
)  # fmt: skip
def test_a_name_says_how_a_run_is_placed(name: str, fit: str) -> None:
    made = make_cache(EngineConfig("random:tiny", cache=name), 64, 256)
    assert isinstance(made, ContiguousCache) and (made.fit, made.reservation) == (fit, None)


def test_a_pool_too_small_for_one_reservation_is_refused() -> None:
    with pytest.raises(MemoryBudgetError, match="a pool of 128 tokens holds no reservation of max_model_len 256"):
        make_cache(EngineConfig("random:tiny", cache="reservation"), 8, 256)
