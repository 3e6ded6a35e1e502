from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import TOLERANCE, exact, make_case, worst
from kernel_checks import SUMMED_IN_FP32, check_prefill

from pagesim.kernels.layout import HEAD_DIMS
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.prefill import PrefillPath, prefill_attention
from pagesim.kernels.settings import Card

LENGTHS = [1, 15, 16, 17, 255, 1000]
COUNTS = [1, 7, 16, 2, 70, 1]
PLAIN = AttentionOptions(scale=0.125)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_chunks_behind_prefixes(dtype: torch.dtype) -> None:
    check_prefill(make_case(LENGTHS, counts=COUNTS, heads=2, kv_heads=1, dtype=dtype), PLAIN)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_window_and_soft_cap(dtype: torch.dtype) -> None:
    case = make_case(LENGTHS, counts=COUNTS, heads=2, kv_heads=1, dtype=dtype)
    check_prefill(case, AttentionOptions(0.125, window=20, softcap=5.0))


def test_half_precision_is_summed_and_scored_in_fp32() -> None:
    summed = make_case([700], counts=[20], dtype=torch.float16, heads=1, kv_heads=1, values_near=1.5)
    check_prefill(summed, PLAIN, tolerance=SUMMED_IN_FP32)
    check_prefill(make_case([17, 60], counts=[5, 60], dtype=torch.float16), AttentionOptions(1.0))


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_head_dims(head_dim: int) -> None:
    check_prefill(make_case([20, 40], counts=[20, 5], head_dim=head_dim), AttentionOptions(head_dim**-0.5))


@given(
    pairs=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 2),
    head_dim=st.sampled_from(HEAD_DIMS),
    block_size=st.sampled_from([16, 32, 48]),
    dtype=st.sampled_from(list(TOLERANCE)),
    window=st.none() | st.integers(1, 60),
    softcap=st.none() | st.floats(1, 50),
    seed=st.integers(0, 99),
)
@settings(max_examples=15, deadline=None)
def test_any_shape(pairs, kv_heads, group, head_dim, block_size, dtype, window, softcap, seed) -> None:
    case = make_case(
        [prefix + count for prefix, count in pairs],
        counts=[count for _, count in pairs],
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        dtype=dtype,
        seed=seed,
    )
    check_prefill(case, AttentionOptions(head_dim**-0.5, window, softcap))


def test_an_empty_batch_gives_an_empty_output() -> None:
    case = make_case([])
    output, _ = prefill_attention(case.query, case.cache, case.chunks, PLAIN)
    assert output.shape == (0, 4, 64)


def test_turing_runs_sdpa_and_says_so() -> None:
    case = make_case([33], counts=[20], dtype=torch.float16)
    output, path = prefill_attention(case.query, case.cache, case.chunks, PLAIN, card=Card(75, 1))
    assert path is PrefillPath.SDPA
    assert worst(output, exact(case, PLAIN)) <= TOLERANCE[torch.float16]
