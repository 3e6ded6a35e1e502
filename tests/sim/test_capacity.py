"""Memory budgets, plans of pools, tails and limits: exact small cases, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.budget import BudgetOptions, MemoryBudget, Standing, Term, memory_budget, weights_term
from pagesim.sim.capacity import BareCard, Capacity, tail
from pagesim.sim.catalog.devices import find_device
from pagesim.sim.catalog.models import find_model
from pagesim.sim.errors import GeometryError, PagesimError, UsageError
from pagesim.sim.geometry import LayerCache, cache_geometry, plain_cache
from pagesim.sim.lengths import empirical, fixed, uniform
from pagesim.sim.pool import Engine, PoolGeometry
from pagesim.sim.poolplan import PoolOptions, plan_pool, pool_from
from pagesim.sim.sizes import format_bytes, parse_bytes

GIB = 2**30
SMALL = PoolGeometry(num_blocks=9, block_size=16, bytes_per_token=10)


def small(max_model_len: int) -> Capacity:
    return Capacity(SMALL, plain_cache(10), max_model_len)


def test_the_two_limits_differ_by_the_null_block() -> None:
    assert small(144).starts
    assert not small(144).servable
    assert small(128).servable
    assert not small(145).starts
    assert (small(1).largest_max_model_len, small(1).largest_servable_len) == (144, 128)


def test_rooms_and_concurrency() -> None:
    capacity = small(40)
    assert capacity.reservations == 144 // 40
    assert capacity.sequences(40) == 9 // 3
    assert capacity.servable_sequences(40) == 8 // 3
    assert capacity.max_concurrency == 9 / 3
    with pytest.raises(UsageError, match="accepted: 1 or more"):
        capacity.sequences(0)
    with pytest.raises(UsageError, match="--max-model-len 0"):
        small(0)


def test_windows_let_a_pool_hold_more_and_longer_sequences() -> None:
    layers = (LayerCache(1, 10, 32),) * 3 + (LayerCache(1, 10),)
    cache, full = cache_geometry(layers, 1), cache_geometry(layers, 1, windows=False)
    pool = PoolGeometry(100, 16, cache.bytes_per_token)
    assert Capacity(pool, full, 800).max_concurrency == 2
    assert Capacity(pool, cache, 800).max_concurrency == pool.pool_bytes / (10 * (3 * 48 + 800))
    only_windows = cache_geometry(layers[:3], 1)
    assert Capacity(pool, only_windows, 10**9).starts
    assert Capacity(pool, only_windows, 1).largest_max_model_len is None


def test_tail_of_one_length_is_what_its_last_block_lacks() -> None:
    assert tail(fixed(20), 16, 1000).tokens_mean == 12
    assert tail(fixed(32), 16, 1000).tokens_mean == 0
    assert tail(fixed(20), 16, 1000).share == 12 / 32
    assert tail(fixed(20), 16, 1000).sequences == 31
    assert tail(uniform(1, 64), 16, 1000).tokens_mean == pytest.approx(7.5)
    with pytest.raises(UsageError, match="block size 0"):
        tail(fixed(20), 0, 1000)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=50), st.sampled_from([1, 16, 33]))
def test_tail_is_the_mean_over_a_list(lengths: list[int], block_size: int) -> None:
    found = tail(empirical(np.array(lengths), "a list"), block_size, 10**6)
    lacking = [math.ceil(n / block_size) * block_size - n for n in lengths]
    assert found.tokens_mean == pytest.approx(np.mean(lacking))
    assert 0 <= found.tokens_mean <= found.tokens_most == block_size - 1


def test_bare_card_that_its_weights_fill_holds_nothing() -> None:
    assert BareCard(100, 90, 20, 10).reservations == 0
    assert BareCard(100, 50, 20, 10).reservations == 3


def test_budget_takes_the_utilization_as_written() -> None:
    total = Term("total", 10 * 10**15, Standing.GIVEN, "made up")
    assert MemoryBudget(total, 0.7, ()).allowed_bytes == 7 * 10**15  # 0.7 in binary is a little less than 0.7
    assert MemoryBudget(replace(total, num_bytes=101), 0.5, ()).allowed_bytes == 51


def test_budget_terms_say_how_far_they_can_be_trusted() -> None:
    model, device = find_model("llama-3.1-8b"), find_device("h100")
    terms = memory_budget(model, device, BudgetOptions(weights_bytes=GIB), 1, 1).terms
    assert [(term.name, term.standing) for term in terms] == [
        ("weights", Standing.GIVEN), ("activations", Standing.ESTIMATED), ("workspace", Standing.ESTIMATED)
    ]  # fmt: skip
    assert all(term.how for term in terms)
    (noncache,) = memory_budget(model, device, BudgetOptions(noncache_bytes=GIB), 1, 1).terms
    assert (noncache.num_bytes, noncache.standing) == (GIB, Standing.GIVEN)


def test_the_notes_pair_is_measured_until_a_part_of_it_is_said() -> None:
    model, device = find_model("qwen2.5-0.5b"), find_device("t4")
    measured = memory_budget(model, device, BudgetOptions(), 1, 1)
    assert [term.standing for term in measured.terms] == [Standing.MEASURED]
    assert "2.02 GB" in measured.remarks[0]
    for options, tp in ((BudgetOptions(max_num_batched_tokens=2048), 1), (BudgetOptions(), 2)):
        estimated = memory_budget(model, device, options, tp, 1)
        assert Standing.MEASURED not in {term.standing for term in estimated.terms}
        assert estimated.remarks == ()


OLD_LOG = BudgetOptions(0.9, max_num_batched_tokens=20_000)
PEAKS_GIB = [  # of vLLM's profile run: the first three fitted the constant, the last (an older log) did not
    ("llama-3.1-8b", "h100", BudgetOptions(), 1.89),
    ("qwen3-14b", "h100", BudgetOptions(), 2.23),
    ("qwen2.5-0.5b", "t4", BudgetOptions(max_num_seqs=256), (1_864_689_255 - 988_065_536) / GIB - 0.25),
    ("llama-3.1-8b", "rtx-3090", OLD_LOG, 23.58 * 0.9 - 14.96 - 0.25 - 3.81),
]


@pytest.mark.parametrize(("name", "device", "options", "gib"), PEAKS_GIB)
def test_activation_estimate_against_measured_peaks(name: str, device: str, options: BudgetOptions, gib: float) -> None:
    terms = memory_budget(find_model(name), find_device(device), options, 1, 1).terms
    (activations,) = (term for term in terms if term.name == "activations")
    assert activations.num_bytes / GIB == pytest.approx(gib, rel=0.02)


def test_weights_are_divided_over_ranks_or_must_be_said() -> None:
    model = find_model("llama-3.1-8b")
    assert weights_term(model, BudgetOptions()).num_bytes == 8_030_261_248 * 2
    assert weights_term(model, BudgetOptions(), tp=4, pp=2).num_bytes == 8_030_261_248 * 2 // 8
    assert weights_term(find_model("gpt-oss-20b"), BudgetOptions()).standing is Standing.MEASURED
    with pytest.raises(GeometryError, match="--weights-bytes"):
        weights_term(replace(model, parameters=None), BudgetOptions())
    with pytest.raises(GeometryError, match="vocab_size is missing"):
        memory_budget(replace(model, vocab_size=None), find_device("h100"), BudgetOptions(), 1, 1)


def test_plan_by_ranks_types_and_engine() -> None:
    def tokens(**changes: object) -> int:
        options = PoolOptions(model="llama-3.1-8b", kv_bytes=GIB)
        return plan_pool(replace(options, **changes)).pool.pool_tokens  # type: ignore[arg-type]

    assert tokens() == 8192
    assert tokens(tp=8) == 8 * 8192
    assert tokens(tp=32) == 8 * 8192  # past its 8 KV heads, each rank holds a copy
    assert tokens(pp=4) == 4 * 8192
    assert tokens(kv_dtype="fp8") == tokens(kv_dtype="int8") == 2 * 8192
    assert tokens(kv_dtype="fp32") == 8192 // 2
    assert tokens(block_size=1000) == 8000
    assert tokens(block_size=1000, engine=Engine.TRTLLM) == 9000


def test_pool_from_is_the_notes_pool_unless_told() -> None:
    assert pool_from(PoolOptions()).pool_tokens == 929_024
    assert pool_from(PoolOptions(block_size=64)).num_blocks == 14_516
    assert pool_from(PoolOptions(bytes_per_token=4, num_blocks=7)) == PoolGeometry(7, 16, 4)


CONTRADICTIONS = [
    (PoolOptions(model="llama-3.1-8b"), "decided by nothing; accepted: one of --device, --kv-bytes, --num-blocks"),
    (PoolOptions(model="llama-3.1-8b", device="h100", num_blocks=9), "decided by --device and --num-blocks"),
    (PoolOptions(model="llama-3.1-8b", bytes_per_token=4, num_blocks=9), "both --model and --bytes-per-token"),
    (PoolOptions(num_blocks=9), "neither --model nor --bytes-per-token"),
    (PoolOptions(bytes_per_token=4, num_blocks=9, tp=2), "--kv-dtype, --tp and --pp need --model"),
    (PoolOptions(bytes_per_token=4, num_blocks=9, block_size=0), "--block-size 0; accepted: 1 or more"),
    (PoolOptions(bytes_per_token=-4, num_blocks=9), "--bytes-per-token -4; accepted: 1 or more"),
    (PoolOptions(bytes_per_token=4, kv_bytes=-1), "--kv-bytes -1; accepted: 1 or more"),
    (PoolOptions(bytes_per_token=4, kv_bytes=60), "60 B hold 0 blocks of 64 B"),
    (PoolOptions(bytes_per_token=4, kv_bytes=64), "64 B hold 1 blocks of 64 B; accepted: 2, one of them"),
    (PoolOptions(model="llama-3.1-8b", num_blocks=9, tp=3), "tp 3 does not divide the 32 heads"),
    (PoolOptions(model="llama-3.1-8b", num_blocks=9, pp=33), "pp 33 for 32 layers; accepted: 1 to 32"),
    (PoolOptions(model="llama-3.1-8b", num_blocks=9, kv_dtype="fp4"), "--kv-dtype 'fp4'; accepted: auto"),
    (PoolOptions(model="llama-3.1-70b", device="h100"), "leaves nothing for the cache beside weights"),
    (PoolOptions(bytes_per_token=4, num_blocks=9, budget=BudgetOptions(0.5)), "--utilization 0.5 is of a card"),
    (PoolOptions(bytes_per_token=4, kv_bytes=999, budget=BudgetOptions(noncache_bytes=1)), "together with --device"),
    (PoolOptions(bytes_per_token=4, device="t4"), "the size of the weights is not known"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), CONTRADICTIONS)
def test_what_does_not_hold_together_is_one_clear_line(options: PoolOptions, message: str) -> None:
    with pytest.raises(PagesimError) as caught:
        plan_pool(options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("utilization", [0.0, -0.5, 1.01, math.nan, math.inf])
def test_utilization_is_a_part_of_the_card(utilization: float) -> None:
    with pytest.raises(UsageError, match="accepted: above 0, up to 1"):
        BudgetOptions(utilization)


def test_all_that_is_not_cache_is_said_at_once_or_in_parts() -> None:
    with pytest.raises(UsageError, match="--noncache-bytes is all that is not cache"):
        BudgetOptions(noncache_bytes=1, weights_bytes=1)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("2GiB", 2 * GIB), ("942MiB", 942 * 2**20), ("1.8647GB", 1_864_700_000), ("12288", 12_288), ("1.5 kib", 1536)],
)
def test_sizes_as_people_write_them(text: str, num_bytes: int) -> None:
    assert parse_bytes(text, "--kv-bytes") == num_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "2 GiX", "1e9", "1,5GB", "nan"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--kv-bytes .* is no size; accepted"):
        parse_bytes(text, "--kv-bytes")


SHOWN = {512: "512 B", 12_288: "12 KiB", 988_065_536: "942.3 MiB", 24 * 2**20: "24 MiB", GIB * 5 // 2: "2.50 GiB"}


@pytest.mark.parametrize(("num_bytes", "text"), SHOWN.items())
def test_sizes_as_they_are_shown(num_bytes: int, text: str) -> None:
    assert format_bytes(num_bytes) == text
