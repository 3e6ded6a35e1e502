"""Decode, one query head to a program, without `tl.dot`: the body for Turing, whose tensor cores Triton no longer uses.

Query heads that share a KV head each read its K and V; they are neighbours in the grid, so that the second reading and
those after it find them in the L2.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from pagesim.kernels.tile import contiguous_base, scores_base2, slot_offsets, tile_range


@triton.jit
def decode_one_head_kernel(
    query_ptr,  # [S, H, D]
    cache_ptr,  # [blocks, 2, B, KV * D]; when contiguous a "block" is a row that holds whole sequences
    table_ptr,  # [S, W] int32; when contiguous [S, 2]: row, first slot in it
    lengths_ptr,  # [S] int32
    output_ptr,  # [S, H, D]; when split [S, H, splits, D] fp32
    lse_ptr,  # [S, H, splits] fp32, base 2; written only when split
    score_factor,
    cap_factor,
    window,
    block_stride,
    value_stride,
    slot_stride,
    table_stride,
    num_heads,
    group,  # query heads to a KV head
    HEAD_DIM: tl.constexpr,
    DIM: tl.constexpr,  # head_dim, padded to a power of two
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    ADDRESSING: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_CAP: tl.constexpr,
    IS_SPLIT: tl.constexpr,
):
    """Grid: (H, S, splits)."""
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    split = tl.program_id(2)
    num_splits = tl.num_programs(2)
    dim = tl.arange(0, DIM)
    in_head = dim < HEAD_DIM

    length = tl.load(lengths_ptr + sequence)
    first = tl.maximum(length - window, 0) if HAS_WINDOW else 0
    row = sequence * num_heads + head
    query = tl.load(query_ptr + row * HEAD_DIM + dim, in_head, other=0.0).to(tl.float32)
    column = head // group * HEAD_DIM + dim
    table_ptr += sequence.to(tl.int64) * table_stride
    run_base = contiguous_base(table_ptr, block_stride, slot_stride, ADDRESSING)

    top = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    mixed = tl.zeros([DIM], tl.float32)
    begin, stop = tile_range(first, length, split, num_splits, TILE)
    for tile in tl.range(begin, stop):
        start = tile * TILE
        position = start + tl.arange(0, TILE)
        valid = position < length
        if HAS_WINDOW:
            valid = valid & (position >= first)
        slot = slot_offsets(table_ptr, run_base, start, valid, block_stride, slot_stride, BLOCK_SIZE, TILE, ADDRESSING)
        source = cache_ptr + slot[:, None] + column[None, :]
        mask = valid[:, None] & in_head[None, :]
        key = tl.load(source, mask, other=0.0).to(tl.float32)
        value = tl.load(source + value_stride, mask, other=0.0).to(tl.float32)
        products = tl.sum(query[None, :] * key, 1)
        scores = tl.where(valid, scores_base2(products, score_factor, cap_factor, HAS_CAP), float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 0))
        shrink = tl.exp2(top - new_top)
        weight = tl.exp2(scores - new_top)
        total = total * shrink + tl.sum(weight, 0)
        mixed = mixed * shrink + tl.sum(weight[:, None] * value, 0)
        top = new_top

    if begin < stop:
        mixed = mixed / total
    target = row
    if IS_SPLIT:
        target = row * num_splits + split
        tl.store(lse_ptr + target + tl.arange(0, 1), top + tl.log2(tl.maximum(total, 1e-30)))
    tl.store(output_ptr + target.to(tl.int64) * HEAD_DIM + dim, mixed.to(output_ptr.dtype.element_ty), in_head)
