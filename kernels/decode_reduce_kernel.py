"""The second half of split decode: a head's partial results, weighed by their log-sum-exp, become its output."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def decode_reduce_kernel(
    partial_ptr,  # [S, H, splits, D] fp32, each normalised by its own sum
    lse_ptr,  # [S, H, splits] fp32, base 2; -inf where a split had no tile
    output_ptr,  # [S, H, D]
    num_splits,
    HEAD_DIM: tl.constexpr,
    DIM: tl.constexpr,
    STEP: tl.constexpr,  # splits read at a time
):
    """Grid: (S * H,). Every row has at least one split with tokens, since no sequence is empty."""
    row = tl.program_id(0)
    dim = tl.arange(0, DIM)
    lane = tl.arange(0, STEP)
    lse_ptr += row.to(tl.int64) * num_splits
    partial_ptr += row.to(tl.int64) * num_splits * HEAD_DIM

    top = tl.max(tl.load(lse_ptr + lane, lane < num_splits, other=float("-inf")), 0)
    for begin in tl.range(STEP, num_splits, STEP):
        split = begin + lane
        top = tl.maximum(top, tl.max(tl.load(lse_ptr + split, split < num_splits, other=float("-inf")), 0))

    total = tl.zeros([DIM], tl.float32)
    mixed = tl.zeros([DIM], tl.float32)
    for begin in tl.range(0, num_splits, STEP):
        split = begin + lane
        lse = tl.load(lse_ptr + split, split < num_splits, other=float("-inf"))
        weight = tl.exp2(lse - top)
        mask = (lse > float("-inf"))[:, None] & (dim < HEAD_DIM)[None, :]
        partial = tl.load(partial_ptr + split[:, None] * HEAD_DIM + dim[None, :], mask, other=0.0)
        mixed += tl.sum(weight[:, None] * partial, 0)
        total += tl.sum(weight, 0)
    output = output_ptr + row.to(tl.int64) * HEAD_DIM + dim
    tl.store(output, (mixed / total).to(output_ptr.dtype.element_ty), dim < HEAD_DIM)
