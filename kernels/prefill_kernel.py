"""Prefill: the queries of a chunk against its cached prefix and itself, causal, ragged, through the same address line.

The chunk's own K and V have been written to the cache before. For cards from compute capability 8.0 on.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from pagesim.kernels.tile import contiguous_base, scores_base2, slot_offsets


@triton.jit
def prefill_kernel(
    query_ptr,  # [T, H, D], chunks packed one after the other
    cache_ptr,  # [blocks, 2, B, KV * D]; when contiguous a "block" is a row that holds whole sequences
    table_ptr,  # [S, W] int32; when contiguous [S, 2]: row, first slot in it
    lengths_ptr,  # [S] int32: prefix and chunk together
    starts_ptr,  # [S + 1] int32: rows of the query tensor
    output_ptr,  # [T, H, D]
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
    ROWS: tl.constexpr,  # query tokens to a program
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    ADDRESSING: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_CAP: tl.constexpr,
    DOT_FP32: tl.constexpr,  # the interpreter multiplies bf16 as integers: raise the operands first
):
    """Grid: (row tiles of the longest chunk, H, S)."""
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    begin_row = tl.load(starts_ptr + sequence)
    count = tl.load(starts_ptr + sequence + 1) - begin_row
    first_row = tl.program_id(0) * ROWS
    if first_row >= count:
        return
    length = tl.load(lengths_ptr + sequence)
    row = first_row + tl.arange(0, ROWS)
    dim = tl.arange(0, DIM)
    row_mask = (row < count)[:, None] & (dim < HEAD_DIM)[None, :]
    place = ((begin_row + row).to(tl.int64) * num_heads + head)[:, None] * HEAD_DIM + dim[None, :]
    query = tl.load(query_ptr + place, row_mask, other=0.0)
    seen_from = length - count + row  # the position of each query, and the last one it sees
    column = head // group * HEAD_DIM + dim
    table_ptr += sequence.to(tl.int64) * table_stride
    run_base = contiguous_base(table_ptr, block_stride, slot_stride, ADDRESSING)

    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, DIM], tl.float32)
    end = tl.minimum(length, length - count + first_row + ROWS)
    first = tl.maximum(length - count + first_row - window + 1, 0) if HAS_WINDOW else 0
    for start in tl.range(first // TILE * TILE, end, TILE):
        position = start + tl.arange(0, TILE)
        valid = position < end
        if HAS_WINDOW:
            valid = valid & (position >= first)
        slot = slot_offsets(table_ptr, run_base, start, valid, block_stride, slot_stride, BLOCK_SIZE, TILE, ADDRESSING)
        source = cache_ptr + slot[:, None] + column[None, :]
        mask = valid[:, None] & (dim < HEAD_DIM)[None, :]
        key = tl.load(source, mask, other=0.0)
        value = tl.load(source + value_stride, mask, other=0.0)
        if DOT_FP32:
            products = tl.dot(query.to(tl.float32), tl.trans(key.to(tl.float32)), input_precision="ieee")
        else:
            products = tl.dot(query, tl.trans(key), input_precision="ieee")
        sees = position[None, :] <= seen_from[:, None]
        if HAS_WINDOW:
            sees = sees & (position[None, :] > seen_from[:, None] - window)
        sees = sees & valid[None, :]
        scores = tl.where(sees, scores_base2(products, score_factor, cap_factor, HAS_CAP), float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)  # a window can hide the whole tile from a row
        shrink = tl.exp2(top - base)
        weight = tl.exp2(scores - base[:, None])
        total = total * shrink + tl.sum(weight, 1)
        weight = weight.to(value.dtype)
        if DOT_FP32:
            added = tl.dot(weight.to(tl.float32), value.to(tl.float32), input_precision="ieee")
            mixed = mixed * shrink[:, None] + added
        else:
            mixed = tl.dot(weight, value, mixed * shrink[:, None], input_precision="ieee")
        top = new_top

    total = tl.where(row < count, total, 1.0)  # rows past the chunk see nothing and are not stored
    tl.store(output_ptr + place, (mixed / total[:, None]).to(output_ptr.dtype.element_ty), row_mask)
