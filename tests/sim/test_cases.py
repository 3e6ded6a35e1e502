"""Published cases of capacity, each with its source: every id of ../shared/cases.json has a test here, by its number.

Inputs in GiB are rounded to two decimals in the logs, so a case whose answer is a whole number of blocks can only be
held between the answers for the two ends of that rounding; where the rounding does not matter, the test is exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.budget import BudgetOptions, MemoryBudget, Standing, Term
from pagesim.sim.capacity import Capacity, equivalent_tokens
from pagesim.sim.catalog.models import find_model
from pagesim.sim.geometry import (
    CacheGeometry,
    LayerCache,
    Layers,
    cache_geometry,
    kv_heads_per_rank,
    plain_cache,
    stages,
)
from pagesim.sim.pool import Engine, PoolGeometry
from pagesim.sim.poolplan import PoolOptions, plan_pool
from pagesim.sim.sharing import full_block_hit_tokens, private_blocks

CASES = Path(__file__).parents[2] / ".." / "shared" / "cases.json"
GIB = 2**30
HALF_HUNDREDTH = 0.005  # what rounding to two decimals can hide


def load() -> dict[int, dict[str, Any]]:
    if not CASES.is_file():
        return {}
    return {case["id"]: case for case in json.loads(CASES.read_text(encoding="utf-8"))}


LOADED = load()
CHECKS: dict[int, Callable[[dict[str, Any], dict[str, Any]], None]] = {}


def case(number: int) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
    def register(check: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        CHECKS[number] = check
        return check

    return register


@pytest.mark.skipif(not LOADED, reason="../shared/cases.json is not beside this checkout")
@pytest.mark.parametrize("number", sorted(LOADED) or [0])
def test_case(number: int) -> None:
    CHECKS[number](LOADED[number]["input"], LOADED[number]["expected"])


def layers_of(given: dict[str, Any]) -> Layers:
    return (LayerCache(given["kv"], 2 * given["d"]),) * given["L"]


def cache_of(given: dict[str, Any]) -> CacheGeometry:
    return cache_geometry(layers_of(given), given["dtype_bytes"], given.get("tp", 1))


def pool_of(cache: CacheGeometry, num_blocks: int, block_size: int) -> PoolGeometry:
    return PoolGeometry(num_blocks, block_size, cache.bytes_per_token)


def blocks_between(kv_gib: float, bytes_per_block: int) -> range:
    """Block counts that a budget printed as `kv_gib` may stand for."""
    ends = [math.floor((kv_gib + way * HALF_HUNDREDTH) * GIB) for way in (-1, 1)]
    low, high = (Engine.VLLM.blocks_in(end, bytes_per_block) for end in ends)
    return range(low, high + 1)


def planned(kv_gib: float, bytes_per_token: int, block_size: int) -> PoolGeometry:
    options = PoolOptions(bytes_per_token=bytes_per_token, kv_bytes=math.floor(kv_gib * GIB), block_size=block_size)
    return plan_pool(options).pool


@case(1)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    assert cache == cache_geometry(find_model("llama-3.1-8b").layers, 2)
    capacity = Capacity(pool_of(cache, given["num_blocks"], given["block"]), cache, given["max_model_len"])
    assert cache.bytes_per_token == expected["bytes_per_token"]
    assert capacity.pool.pool_tokens == expected["tokens"]
    assert round(capacity.max_concurrency, 2) == expected["concurrency"]
    assert given["num_blocks"] in blocks_between(given["kv_gib"], capacity.pool.bytes_per_block)


@case(3)
def _(given: Any, expected: Any) -> None:
    cache = plain_cache(1)  # the log does not say what a token costs, and it does not matter
    capacity = Capacity(pool_of(cache, given["num_blocks"], given["block"]), cache, given["max_model_len"])
    assert capacity.pool.pool_tokens == expected["tokens"]
    assert round(capacity.max_concurrency, 2) == expected["concurrency"]


@case(5)
def _(given: Any, expected: Any) -> None:
    cache = plain_cache(given["bytes_per_token"])
    pool = planned(given["kv_gib"], cache.bytes_per_token, given["block"])
    capacity = Capacity(pool, cache, given["max_model_len"])
    assert round(capacity.needed_bytes / GIB, 2) == expected["need_gib"]
    assert not capacity.starts
    lengths = [
        Capacity(pool_of(cache, blocks, given["block"]), cache, 1).largest_max_model_len
        for blocks in blocks_between(given["kv_gib"], pool.bytes_per_block)
    ]
    assert (lengths[0], lengths[-1]) == (122_000, 122_224)  # the range that the case states
    assert expected["max_len_est"] in lengths


@case(7)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)

    def blocks(way: int) -> int:
        """Every printed term at the end of its rounding that makes the cache smaller (-1) or larger (1)."""

        def term(name: str, gib: float, direction: int) -> Term:
            return Term(name, round((gib + direction * HALF_HUNDREDTH) * GIB), Standing.GIVEN, "the report")

        parts = ("weights_gib", "activation_gib", "nontorch_gib")
        terms = tuple(term(name, given[name], -way) for name in parts)
        budget = MemoryBudget(term("total", 79.19, way), given["util"], terms)
        return Engine.VLLM.blocks_in(budget.cache_bytes, given["block"] * cache.bytes_per_token)

    num_blocks = expected["tokens"] // given["block"]
    assert num_blocks == 29_750  # of the report's fixture
    assert blocks(-1) <= num_blocks <= blocks(1)
    capacity = Capacity(pool_of(cache, num_blocks, given["block"]), cache, given["max_model_len"])
    assert round(capacity.max_concurrency, 2) == expected["concurrency"]
    assert round(capacity.pool.pool_bytes / GIB, 2) == expected["kv_gib"]


@case(9)
def _(given: Any, expected: Any) -> None:
    cache, model = cache_of(given), find_model("llama-3.1-8b")
    assert cache == cache_geometry(model.layers, 4)
    pool = planned(given["kv_gib"], cache.bytes_per_token, given["block"])
    assert pool.pool_tokens == expected["tokens"]
    assert model.parameters is not None
    # The log's weights include rotary tables and the like, which parameters x 4 B leaves out: 0.07 GiB of 29.98.
    assert 0 < given["weights_gib"] - model.parameters * 4 / GIB < 0.1
    assert round(LOADED[7]["expected"]["tokens"] / expected["tokens"], 2) == 2.72


@case(11)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    assert cache == cache_geometry(find_model("qwen3-14b").layers, 2)
    for version, kv_gib in given["kv_gib_by_version"].items():
        pool = planned(kv_gib, cache.bytes_per_token, given["block"])
        concurrency = Capacity(pool, cache, given["max_model_len"]).max_concurrency
        assert round(concurrency, 2) == expected["concurrency"][version]


@case(13)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    assert cache == cache_geometry(find_model("qwen3-235b-a22b").layers, 2, tp=4)
    assert cache.bytes_per_token == expected["bytes_per_token"]
    pool = PoolGeometry(expected["tokens"], 1, cache.bytes_per_token, Engine.SGLANG.null_blocks)
    assert round(pool.pool_bytes / 2 / GIB, 2) == given["k_gib"] == given["v_gib"]  # printed as "GB"
    low, high = (
        Engine.SGLANG.blocks_in(round(2 * (given["k_gib"] + way * HALF_HUNDREDTH) * GIB), pool.bytes_per_block)
        for way in (-1, 1)
    )
    assert low <= expected["tokens"] <= high


@case(15)
def _(given: Any, expected: Any) -> None:
    model = find_model(given["model"])
    cache = cache_geometry(model.layers, given["dtype_bytes"])
    assert model.layers == (LayerCache(1, given["latent"]),) * given["L"]
    assert cache.bytes_per_token == expected["bytes_per_token"]
    for tp in (2, 4, 8):  # one vector, which every rank holds whole
        assert cache_geometry(model.layers, given["dtype_bytes"], tp) == cache
    # Before MLA, vLLM kept 16 heads of a key and a value, both padded to 256 numbers.
    unfolded = cache_geometry((LayerCache(16, 2 * 256),) * given["L"], given["dtype_bytes"])
    assert round(unfolded.bytes_per_token / cache.bytes_per_token, 2) == expected["ratio_vs_14"]
    assert planned(given["kv_gib"], cache.bytes_per_token, given["block"]).pool_tokens == expected["tokens"]


@case(17)
def _(given: Any, expected: Any) -> None:
    each = kv_heads_per_rank(given["total_kv_heads"], given["tp"])
    assert each == expected["kv_heads_per_rank"]
    assert each * given["tp"] == expected["copies_stored"]


@case(19)
def _(given: Any, expected: Any) -> None:
    cache = plain_cache(given["bytes_per_token"])
    pool = planned(given["kv_gib"], cache.bytes_per_token, given["block"])
    capacity = Capacity(pool, cache, given["max_model_len"])
    assert capacity.needed_bytes / GIB == expected["need_gib"]
    assert not capacity.starts
    assert capacity.largest_max_model_len == expected["max_len_est"]


@case(21)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    kv_bytes = round(given["free_fraction"] * given["available_gib"] * GIB)
    options = PoolOptions(
        bytes_per_token=cache.bytes_per_token,
        kv_bytes=kv_bytes,
        block_size=given["tokens_per_block"],
        engine=Engine.TRTLLM,
    )
    pool = plan_pool(options).pool
    assert pool.bytes_per_block == expected["block_mib"] * 2**20
    assert pool.num_blocks == pool.usable_blocks == expected["num_blocks"]
    assert Engine.VLLM.blocks_in(kv_bytes, pool.bytes_per_block) == expected["num_blocks"] - 1


@case(23)
def _(given: Any, expected: Any) -> None:
    pool = PoolGeometry(given["max_blocks"], given["tokens_per_block"], 1, Engine.TRTLLM.null_blocks)
    assert pool.blocks_for(given["prompt"]) == expected["alloc_new_blocks"]
    assert pool.usable_blocks - given["used"] == expected["free"]


@case(25)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    pool = pool_of(cache, given["num_blocks"], given["block"])
    assert pool.pool_tokens == expected["tokens"]
    assert round(pool.pool_bytes / GIB, 2) == expected["per_gpu_gib"]
    assert Engine.VLLM.blocks_in(given["swap_gib"] * GIB, pool.bytes_per_block) == expected["cpu_blocks"]


@case(27)
def _(given: Any, expected: Any) -> None:
    cache = plain_cache(1)
    capacity = Capacity(pool_of(cache, given["num_blocks"], given["block"]), cache, expected["naive_wrong"])
    assert capacity.largest_servable_len == expected["max_len"]
    assert capacity.starts  # start-up accepts what can never be scheduled
    assert not capacity.servable


@case(29)
def _(given: Any, expected: Any) -> None:
    shared = given["shared_prefix"]
    assert full_block_hit_tokens(shared, 2 * shared, given["block"]) == expected["hit_tokens"]
    assert full_block_hit_tokens(shared, 2 * shared, 16) == shared  # the other engine's small blocks


@case(31)
def _(given: Any, expected: Any) -> None:
    first, second = given["salts"]
    assert full_block_hit_tokens(1000, 1000, 16, same_salt=first == second) == expected["hit_tokens"]
    assert expected["hit_same_salt"] == "full blocks only"
    assert full_block_hit_tokens(1000, 1000, 16, same_salt=True) == 992


@case(33)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    assert cache == cache_geometry(find_model(given["model"]).layers, 2)
    assert cache.bytes_per_token == expected["bytes_per_token"]
    gib = cache.sequence_bytes(given["seq"]) / GIB
    assert round(gib, 2) == expected["gib"]
    assert round(2 * gib, 1) == round(expected["blog_wrong"], 1)  # a factor of two, not another mistake
    for name, right in (("llama-3.1-8b", 15.62), ("llama-3.1-70b", 39.06)):
        assert round(cache_geometry(find_model(name).layers, 2).sequence_bytes(given["seq"]) / GIB, 2) == right


@case(35)
def _(given: Any, expected: Any) -> None:
    assert equivalent_tokens(expected["concurrency"], given["max_model_len"]) == expected["tokens_equiv"]
    cache = plain_cache(1)
    printed = Capacity(PoolGeometry(given["kv_log_tokens"], 1, 1, 0), cache, given["max_model_len"])
    assert round(printed.max_concurrency, 2) == expected["wrong"]


@case(37)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    assert cache == cache_geometry(find_model("llama-2-7b").layers, 2)
    blocks = private_blocks(given["n"], given["max_tokens"], given["block"])
    assert blocks == expected["private_blocks"]
    assert round(blocks * given["block"] * cache.bytes_per_token / GIB, 2) == expected["gib"]
    options = PoolOptions(
        model="llama-2-7b",
        device="rtx-4090",
        budget=BudgetOptions(0.9, weights_bytes=round(12.6 * GIB), activation_bytes=0, workspace_bytes=0),
    )
    plan = plan_pool(options)
    assert plan.pool.pool_bytes < 9 * GIB
    assert plan.pool.usable_blocks < blocks


@case(39)
def _(given: Any, expected: Any) -> None:
    cache = cache_of(given)
    assert cache == cache_geometry(find_model("llama-3.1-70b").layers, 2)
    capacity = Capacity(pool_of(cache, given["num_blocks"], given["block"]), cache, given["max_model_len"])
    assert capacity.pool.pool_tokens == expected["tokens"]
    assert round(capacity.max_concurrency, 2) == expected["concurrency"]
    assert round(capacity.pool.pool_bytes / GIB, 2) == expected["kv_gib"]


@case(41)
def _(given: Any, expected: Any) -> None:
    cache = plain_cache(1)
    pool = PoolGeometry(given["max_total_num_tokens"], 1, 1, Engine.SGLANG.null_blocks)
    capacity = Capacity(pool, cache, given["context_len"])
    assert round(capacity.max_concurrency, 2) == expected["worst_case_full_ctx"]
    assert given["max_running_requests"] == expected["cap"]
    shared_evenly = given["max_total_num_tokens"] // expected["cap"]  # at this length the cap binds, not the pool
    assert capacity.sequences(shared_evenly) >= expected["cap"] > capacity.sequences(given["context_len"])


@case(43)
def _(given: Any, expected: Any) -> None:
    windowed, full = LayerCache(16, 512, given["window"]), LayerCache(4, 1024)
    layers = (windowed,) * given["swa_layers"] + (full,) * given["full_layers"]
    off, on = cache_geometry(layers, 2, windows=False), cache_geometry(layers, 2)
    pool = PoolGeometry(given["tokens"] // 32, 32, off.bytes_per_token)
    assert pool.pool_tokens == given["tokens"]
    assert Capacity(pool, off, given["max_model_len"]).max_concurrency == expected["concurrency"]
    beyond = 4 * given["window"]
    assert off.sequence_bytes(beyond) == beyond * off.bytes_per_token > on.sequence_bytes(beyond)


@case(45)
def _(given: Any, expected: Any) -> None:
    assert expected["answer"].endswith("per-stage layers x pp in-flight micro-batches == all layers")
    layers = find_model("llama-3.1-70b").layers
    whole = cache_geometry(layers, 2)
    for pp in (1, 2, 4, 8):
        assert cache_geometry(layers, 2, pp=pp).bytes_per_token * pp == whole.bytes_per_token
    assert [len(stage) for stage in stages(layers, 7)] == [11, 11, 11, 12, 12, 12, 11]  # the largest decides
    assert cache_geometry(layers, 2, pp=7).num_layers == 12
