"""What the attention kernels share inside a tile: the address line, the range of tiles, the scores.

Every function here is inlined into a kernel. `positions` are token positions of one sequence, [TILE] int32.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from pagesim.kernels.addressing import Addressing

CONTIGUOUS = tl.constexpr(int(Addressing.CONTIGUOUS))
BY_POSITION = tl.constexpr(int(Addressing.BY_POSITION))


@triton.jit
def slot_offsets(
    table_ptr,  # the sequence's row of the block table, [W] int32; not read when contiguous
    base,  # element offset of its first slot in a contiguous cache; not used when paged
    start,  # first position of the tile
    valid,  # [TILE] bool: positions the sequence has
    block_stride,
    slot_stride,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    ADDRESSING: tl.constexpr,
):
    """Element offsets, [TILE] int64, of the slots that hold positions start .. start + TILE.

    address = block_table[i // B] * block stride + (i % B) * slot stride. Block offsets are 64-bit.
    """
    lanes = tl.arange(0, TILE)
    if ADDRESSING == CONTIGUOUS:
        return base + start * slot_stride.to(tl.int64) + lanes * slot_stride
    elif ADDRESSING == BY_POSITION:
        positions = start + lanes
        blocks = tl.load(table_ptr + positions // BLOCK_SIZE, mask=valid, other=0)
        return blocks.to(tl.int64) * block_stride + (positions % BLOCK_SIZE) * slot_stride
    else:
        block = tl.load(table_ptr + start // BLOCK_SIZE)
        first = block.to(tl.int64) * block_stride + start % BLOCK_SIZE * slot_stride
        return first + lanes * slot_stride


@triton.jit
def contiguous_base(table_ptr, block_stride, slot_stride, ADDRESSING: tl.constexpr):
    """Element offset, int64, of a contiguous sequence's first slot: [row, slot in the row] int32 is its "table".

    Read once, before the loop over tiles. Zero when paged, where nothing is read and nothing used.
    """
    base = tl.zeros([], tl.int64)
    if ADDRESSING == CONTIGUOUS:
        base = tl.load(table_ptr).to(tl.int64) * block_stride + tl.load(table_ptr + 1).to(tl.int64) * slot_stride
    return base


@triton.jit
def tile_range(first, end, split, num_splits, TILE: tl.constexpr):
    """Tiles [begin, stop) that split number `split` walks, of those that cover positions [first, end)."""
    first_tile = first // TILE
    num_tiles = tl.cdiv(end, TILE) - first_tile
    per_split = tl.cdiv(num_tiles, num_splits)
    begin = first_tile + split * per_split
    return begin, tl.minimum(begin + per_split, first_tile + num_tiles)


@triton.jit
def scores_base2(products, score_factor, cap_factor, HAS_CAP: tl.constexpr):
    """Scores to the base 2 from raw products q.k; tanh is spelled out, since the interpreter links no library."""
    scores = products * score_factor
    if HAS_CAP:
        scores = cap_factor * (1.0 - 2.0 / (tl.exp2(scores * 2.8853900817779268) + 1.0))  # 2 * log2(e)
    return scores
