from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import FAR_BLOCK, huge_pool

from pagesim.kernels.block_copy import copy_blocks
from pagesim.kernels.cpu_cache import copy_blocks_cpu, write_kv_cpu
from pagesim.kernels.errors import InputError
from pagesim.kernels.kv_write import write_kv
from pagesim.kernels.layout import layout_of
from pagesim.kernels.slots import Slots


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal, where NaN equals NaN."""
    return torch.equal(left.isnan(), right.isnan()) and torch.equal(left.nan_to_num(), right.nan_to_num())


@given(
    num_tokens=st.integers(0, 20),
    kv_heads=st.integers(1, 3),
    block_size=st.sampled_from([16, 48]),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    seed=st.integers(0, 99),
)
@settings(max_examples=15, deadline=None)
def test_kv_write_fills_its_slots_and_no_other(num_tokens, kv_heads, block_size, dtype, seed) -> None:
    random = torch.Generator().manual_seed(seed)
    cache = torch.full((5, 2, block_size, kv_heads * 80), float("nan"), dtype=dtype)
    expected = cache.clone()
    key, value = torch.randn(2, num_tokens, kv_heads, 80, generator=random).to(dtype)
    slots = torch.randperm(5 * block_size, generator=random)[:num_tokens]
    write_kv(key, value, cache, Slots.of(slots, layout_of(cache, kv_heads), "cpu"))
    for token, slot in enumerate(slots.tolist()):
        expected[slot // block_size, 0, slot % block_size] = key[token].flatten()
        expected[slot // block_size, 1, slot % block_size] = value[token].flatten()
    assert same(cache, expected)


def test_kv_write_takes_rows_of_a_fused_projection_and_equals_the_reference() -> None:
    cache = torch.zeros(4, 2, 16, 128)
    expected = cache.clone()
    fused, value = torch.randn(6, 8, 64), torch.randn(6, 2, 64)  # K's rows lie apart, V's do not
    slots = Slots.of([63, 0, 17, 16, 15, 40], layout_of(cache, 2), "cpu")
    write_kv(fused[:, 4:6], value, cache, slots)
    write_kv_cpu(fused[:, 4:6], value, expected, slots)
    assert torch.equal(cache, expected)
    assert torch.equal(cache[3, 0, 15], fused[0, 4:6].flatten())
    assert torch.equal(cache[1, 1, 1], value[2].flatten())


def test_writes_and_copies_at_the_end_of_a_pool_whose_offsets_pass_32_bits() -> None:
    pool = huge_pool(FAR_BLOCK + 2)
    key, value = torch.randn(2, 1, 2, 64).half()
    write_kv(key, value, pool, Slots.of([FAR_BLOCK * 16 + 5], layout_of(pool, 2), "cpu"))
    copy_blocks([pool], [(FAR_BLOCK, 3), (FAR_BLOCK - 1, FAR_BLOCK + 1)])
    copy_blocks([pool], [(3, FAR_BLOCK + 1)])
    for block in (FAR_BLOCK, 3, FAR_BLOCK + 1):
        assert torch.equal(pool[block, :, 5], torch.stack((key, value)).view(2, 128))
        assert pool[block].count_nonzero() == 2 * 128


@pytest.mark.parametrize("write", [write_kv, write_kv_cpu])
def test_a_write_into_one_layer_of_a_larger_pool_leaves_the_others_alone(write) -> None:
    pool = torch.zeros(4, 3, 2, 16, 128)
    key, value = torch.randn(2, 2, 2, 64)
    write(key, value, pool[:, 1], Slots.of([17, 63], layout_of(pool[:, 1], 2), "cpu"))
    assert torch.equal(pool[[1, 3], 1, 0, [1, 15]], key.flatten(1))
    assert torch.equal(pool[[1, 3], 1, 1, [1, 15]], value.flatten(1))
    assert pool.count_nonzero() == 2 * 2 * 128


@pytest.mark.parametrize("copy", [copy_blocks, copy_blocks_cpu])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_block_copy_reaches_every_layer_and_nothing_else(dtype, copy) -> None:
    caches = [torch.randn(7, 2, 16, 160).to(dtype) for _ in range(3)]
    expected = [cache.clone() for cache in caches]
    copy(caches, [(0, 5), (3, 1), (0, 6)])
    for cache in expected:
        cache[5], cache[1], cache[6] = cache[0].clone(), cache[3].clone(), cache[0].clone()
    assert all(torch.equal(cache, wanted) for cache, wanted in zip(caches, expected, strict=True))


def test_block_copy_of_no_pairs_changes_nothing() -> None:
    cache = torch.ones(2, 2, 16, 64)
    copy_blocks([cache], [])
    assert torch.equal(cache, torch.ones(2, 2, 16, 64))


@pytest.mark.parametrize("pairs", [[(0, 4)], [(-1, 2)], [(0, 1), (2, 1)], [(0, 1), (1, 2)], [(1, 1)]])
@pytest.mark.parametrize("copy", [copy_blocks, copy_blocks_cpu])
def test_block_copies_that_would_race_or_miss_are_refused(copy, pairs) -> None:
    with pytest.raises(InputError, match="pair"):
        copy([torch.zeros(4, 2, 16, 64)], pairs)


def test_block_copy_refuses_layers_that_differ() -> None:
    with pytest.raises(InputError, match="layer 1"):
        copy_blocks([torch.zeros(4, 2, 16, 64), torch.zeros(5, 2, 16, 64)], [(0, 1)])
