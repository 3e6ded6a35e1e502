from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import TOLERANCE, exact, make_case, worst
from kernel_checks import CARDS, FAR_BLOCK, SUMMED_IN_FP32, check_decode, decode, huge_pool, launch_of

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.decode import REDUCE_STEP, decode_attention
from pagesim.kernels.decode_reduce_kernel import decode_reduce_kernel
from pagesim.kernels.layout import HEAD_DIMS, layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.settings import Body

LENGTHS = [1, 15, 16, 17, 255, 1000]
PLAIN = AttentionOptions(scale=0.125)


@pytest.mark.parametrize("body", Body)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_decode_is_exact_and_paged_equals_contiguous(dtype: torch.dtype, body: Body) -> None:
    check_decode(make_case(LENGTHS, dtype=dtype, heads=2, kv_heads=1), PLAIN, body)


@pytest.mark.parametrize("body", Body)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_window_and_soft_cap(dtype: torch.dtype, body: Body) -> None:
    check_decode(make_case(LENGTHS, dtype=dtype, seed=1), AttentionOptions(0.125, window=40, softcap=5.0), body)


@pytest.mark.parametrize("body", Body)
def test_half_precision_is_summed_in_fp32(body: Body) -> None:
    case = make_case([700], dtype=torch.float16, heads=1, kv_heads=1, values_near=1.5)
    check_decode(case, PLAIN, body, tolerance=SUMMED_IN_FP32)


@pytest.mark.parametrize("body", Body)
def test_half_precision_is_scored_in_fp32(body: Body) -> None:
    """Unscaled scores, of up to 30: rounded to fp16 they would be off by a hundredth."""
    check_decode(make_case([17, 60, 33], dtype=torch.float16), AttentionOptions(1.0), body)


@pytest.mark.parametrize("body", Body)
def test_split_decode_with_splits_that_have_no_tile(body: Body) -> None:
    check_decode(make_case([1, 16, 300], dtype=torch.float16), PLAIN, body, splits=5)


def test_more_splits_than_the_reduction_reads_at_a_time() -> None:
    check_decode(make_case([600], kv_heads=1, heads=1, dtype=torch.float32), PLAIN, Body.GROUPED, splits=40)


def test_the_reduction_weighs_splits_far_apart_and_leaves_out_those_without_a_tile() -> None:
    """Log-sum-exps 400 apart, the largest past the first that are read: nothing may overflow. NaN where no tile was."""
    partial, lse = torch.randn(2, 3, 40, 80), torch.linspace(-200, 200, 40).repeat(2, 3, 1)
    lse[0, 1, 7::3], lse[1, 2, :39] = float("-inf"), float("-inf")
    partial[lse == float("-inf")] = float("nan")
    output = torch.empty(2, 3, 80)
    decode_reduce_kernel[(6,)](partial, lse, output, 40, HEAD_DIM=80, DIM=128, STEP=REDUCE_STEP)
    weights = torch.softmax(lse.double() * math.log(2), -1)
    expected = torch.einsum("shk,shkd->shd", weights, partial.double().nan_to_num())
    assert worst(output, expected) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("body", Body)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_head_dims(head_dim: int, body: Body) -> None:
    check_decode(make_case([17, 40], head_dim=head_dim), AttentionOptions(head_dim**-0.5), body)


@pytest.mark.parametrize("body", Body)
@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 3), (14, 2), (20, 1)])
def test_groups(heads: int, kv_heads: int, body: Body) -> None:
    check_decode(make_case([17, 33], heads=heads, kv_heads=kv_heads), PLAIN, body)


def test_a_group_larger_than_one_program() -> None:
    check_decode(make_case([17], heads=72, kv_heads=1), PLAIN, Body.GROUPED)


@given(
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 4),
    head_dim=st.sampled_from(HEAD_DIMS),
    block_size=st.sampled_from([16, 32, 48, 64]),
    dtype=st.sampled_from(list(TOLERANCE)),
    window=st.none() | st.integers(1, 60),
    softcap=st.none() | st.floats(1, 50),
    body=st.sampled_from(Body),
    splits=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_any_shape(lengths, kv_heads, group, head_dim, block_size, dtype, window, softcap, body, splits, seed) -> None:
    case = make_case(
        lengths,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        dtype=dtype,
        seed=seed,
    )
    check_decode(case, AttentionOptions(head_dim**-0.5, window, softcap), body, splits)


def test_an_empty_batch_gives_an_empty_output() -> None:
    case = make_case([])
    assert decode_attention(case.query, case.cache, case.sequences, PLAIN).shape == (0, 4, 64)


@pytest.mark.parametrize("body", Body)
def test_the_default_launch_runs(body: Body) -> None:
    case = make_case([5, 33])
    output = decode_attention(case.query, case.cache, case.sequences, PLAIN, card=CARDS[body])
    assert worst(output, exact(case, PLAIN)) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("addressing", [Addressing.BY_POSITION, Addressing.BY_BLOCK])
@pytest.mark.parametrize("body", Body)
def test_blocks_whose_offsets_pass_32_bits(body: Body, addressing: Addressing) -> None:
    """Blocks at the far end of an 8 GiB pool: their element offsets pass 2^32, their byte offsets 2^33."""
    case = make_case([40], dtype=torch.float16)
    far = FAR_BLOCK
    pool = huge_pool(far + 3)
    table = torch.tensor([[far, far + 2, far + 1]])
    pool[table[0]] = case.cache[case.sequences.host_table[0, :3].long()]
    sequences = Sequences.paged(table, [40], layout_of(pool, 2), "cpu")
    output = decode_attention(case.query, pool, sequences, PLAIN, addressing=addressing, launch=launch_of(case, body))
    assert torch.equal(output, decode(case, addressing, PLAIN, launch_of(case, body)))
    assert worst(output, exact(case, PLAIN)) <= TOLERANCE[torch.float16]
