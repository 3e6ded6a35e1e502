"""Bytes of a cache by length, rank and stage; pools; and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.errors import GeometryError
from pagesim.sim.geometry import (
    CacheGeometry,
    LayerCache,
    LayerGroup,
    cache_geometry,
    describe,
    kv_heads_per_rank,
    plain_cache,
    stages,
)
from pagesim.sim.pool import Engine, PoolGeometry

FULL = LayerCache(4, 256)
WINDOWED = LayerCache(4, 256, window_tokens=100)


def test_full_layers_grow_for_ever_and_windowed_ones_stop() -> None:
    cache = cache_geometry((WINDOWED, FULL, WINDOWED), 2)
    each = 4 * 256 * 2
    assert cache.bytes_per_token == 3 * each
    assert cache.sequence_bytes(100) == 300 * each
    assert cache.sequence_bytes(101) == (100 + 101 + 100) * each
    assert cache.sequence_bytes(10_000) == (2 * 100 + 10_000) * each


def test_without_the_hybrid_manager_every_layer_is_full() -> None:
    cache = cache_geometry((WINDOWED, FULL, WINDOWED), 2, windows=False)
    assert cache.groups == (LayerGroup(3, 3 * 4 * 256 * 2, None),)


def test_a_window_in_blocks_may_start_in_the_middle_of_one() -> None:
    cache = CacheGeometry((LayerGroup(1, 1, window_tokens=100),))
    # 99 tokens back from a token: at worst they touch ceil(99/16) = 7 blocks, and one more.
    assert cache.sequence_bytes(10_000, block_size=16) == 8 * 16
    assert cache.sequence_bytes(50, block_size=16) == 64


def test_layers_without_a_growing_cache_cost_nothing() -> None:
    cache = cache_geometry((None, FULL, None, FULL), 2)
    assert (cache.num_layers, cache.bytes_per_token) == (2, 2 * 4 * 256 * 2)
    assert (
        describe((None, FULL, None, FULL)) == "2 without a growing cache, 2 full (4 KV heads x 256 numbers of K and V)"
    )
    with pytest.raises(GeometryError, match="no layer"):
        cache_geometry((None, None), 2)


@pytest.mark.parametrize(("heads", "tp", "each"), [(8, 1, 8), (8, 4, 2), (8, 8, 1), (8, 16, 1), (2, 4, 1), (1, 8, 1)])
def test_kv_heads_are_divided_then_replicated(heads: int, tp: int, each: int) -> None:
    assert kv_heads_per_rank(heads, tp) == each


@pytest.mark.parametrize(("heads", "tp"), [(8, 3), (6, 4), (3, 2), (0, 1), (4, 0)])
def test_heads_that_do_not_divide_are_refused(heads: int, tp: int) -> None:
    with pytest.raises(GeometryError):
        kv_heads_per_rank(heads, tp)


def test_the_stage_that_keeps_most_decides() -> None:
    layers = (None,) * 4 + (FULL,) * 4
    assert cache_geometry(layers, 2, pp=2).num_layers == 4
    assert [len(stage) for stage in stages((FULL,) * 10, 4)] == [2, 3, 3, 2]
    for pp in (0, 11):
        with pytest.raises(GeometryError, match="1 to 10"):
            stages((FULL,) * 10, pp)


@given(st.integers(1, 64), st.integers(1, 300))
def test_stages_keep_order_and_differ_by_one_layer(pp: int, extra: int) -> None:
    layers = tuple(LayerCache(1, number + 1) for number in range(pp + extra))
    parts = stages(layers, pp)
    assert tuple(layer for part in parts for layer in part) == layers
    assert len(parts) == pp
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(
    windows=st.lists(st.none() | st.integers(1, 500), min_size=1, max_size=4),
    block_size=st.sampled_from([1, 3, 16, 128]),
    num_bytes=st.integers(0, 20_000),
)
def test_longest_is_the_longest(windows: list[int | None], block_size: int, num_bytes: int) -> None:
    cache = cache_geometry(tuple(LayerCache(1, 2, window) for window in windows), 1)
    longest = cache.longest(num_bytes, block_size)
    if longest is None:
        assert cache.sequence_bytes(10**6, block_size) <= num_bytes
    else:
        assert longest == 0 or cache.sequence_bytes(longest, block_size) <= num_bytes
        assert cache.sequence_bytes(longest + 1, block_size) > num_bytes


@given(st.integers(1, 5000), st.sampled_from([1, 7, 16]))
def test_a_sequence_never_shrinks_and_blocks_never_save(tokens: int, block_size: int) -> None:
    cache = cache_geometry((FULL, WINDOWED), 2)
    assert cache.sequence_bytes(tokens, block_size) <= cache.sequence_bytes(tokens + 1, block_size)
    assert cache.sequence_bytes(tokens, block_size) >= cache.sequence_bytes(tokens)


def test_pool_shows_both_counts_of_blocks() -> None:
    pool = PoolGeometry(num_blocks=10, block_size=16, bytes_per_token=4)
    assert (pool.num_blocks, pool.pool_tokens, pool.pool_bytes) == (10, 160, 640)
    assert (pool.usable_blocks, pool.usable_tokens) == (9, 144)
    assert [pool.blocks_for(tokens) for tokens in (0, 1, 16, 17)] == [0, 1, 1, 2]


def test_engines_round_and_keep_back_by_their_own_rules() -> None:
    assert [engine.blocks_in(100, 30) for engine in Engine] == [3, 3, 4]
    assert [engine.blocks_in(90, 30) for engine in Engine] == [3, 3, 3]
    assert [engine.null_blocks for engine in Engine] == [1, 0, 0]


@pytest.mark.parametrize(("blocks", "block_size", "cost"), [(0, 16, 1), (5, 0, 1), (5, -16, 1), (5, 16, 0), (1, 16, 1)])
def test_impossible_pools_are_refused(blocks: int, block_size: int, cost: int) -> None:
    with pytest.raises(GeometryError, match="accepted"):
        PoolGeometry(blocks, block_size, cost)


def test_bytes_per_token_must_be_positive() -> None:
    with pytest.raises(GeometryError, match="accepted: 1 or more"):
        plain_cache(0)
