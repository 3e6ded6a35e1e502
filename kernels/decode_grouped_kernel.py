"""Decode, grouped heads: one program holds the query heads that share a KV head and feeds them to the tensor cores.

For cards from compute capability 8.0 on; before, `tl.dot` becomes multiply-adds (`decode_one_head_kernel`).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from pagesim.kernels.tile import contiguous_base, scores_base2, slot_offsets, tile_range


@triton.jit
def decode_grouped_kernel(
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
    ROWS: tl.constexpr,  # query heads to a program, at least 16
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    ADDRESSING: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_CAP: tl.constexpr,
    IS_SPLIT: tl.constexpr,
    DOT_FP32: tl.constexpr,  # the interpreter multiplies bf16 as integers: raise the operands first
):
    """Grid: (KV heads * row groups, S, splits)."""
    sequence = tl.program_id(1)
    split = tl.program_id(2)
    num_splits = tl.num_programs(2)
    row_groups = tl.cdiv(group, ROWS)
    kv_head = tl.program_id(0) // row_groups
    row = tl.program_id(0) % row_groups * ROWS + tl.arange(0, ROWS)
    head = kv_head * group + row
    dim = tl.arange(0, DIM)
    row_mask = (row < group)[:, None] & (dim < HEAD_DIM)[None, :]

    length = tl.load(lengths_ptr + sequence)
    first = tl.maximum(length - window, 0) if HAS_WINDOW else 0
    query = tl.load(query_ptr + (sequence * num_heads + head)[:, None] * HEAD_DIM + dim[None, :], row_mask, other=0.0)
    column = kv_head * HEAD_DIM + dim
    table_ptr += sequence.to(tl.int64) * table_stride
    run_base = contiguous_base(table_ptr, block_stride, slot_stride, ADDRESSING)

    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, DIM], tl.float32)
    begin, stop = tile_range(first, length, split, num_splits, TILE)
    for tile in tl.range(begin, stop):
        start = tile * TILE
        position = start + tl.arange(0, TILE)
        valid = position < length
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
        scores = tl.where(valid[None, :], scores_base2(products, score_factor, cap_factor, HAS_CAP), float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp2(top - new_top)
        weight = tl.exp2(scores - new_top[:, None])
        total = total * shrink + tl.sum(weight, 1)
        weight = weight.to(value.dtype)
        if DOT_FP32:
            added = tl.dot(weight.to(tl.float32), value.to(tl.float32), input_precision="ieee")
            mixed = mixed * shrink[:, None] + added
        else:
            mixed = tl.dot(weight, value, mixed * shrink[:, None], input_precision="ieee")
        top = new_top

    if begin < stop:
        mixed = mixed / total[:, None]
    target = sequence * num_heads + head
    if IS_SPLIT:
        target = target * num_splits + split
        tl.store(lse_ptr + target, top + tl.log2(tl.maximum(total, 1e-30)), mask=row < group)
    place = output_ptr + target.to(tl.int64)[:, None] * HEAD_DIM + dim[None, :]
    tl.store(place, mixed.to(output_ptr.dtype.element_ty), row_mask)
