"""Writing new K and V into the cache: token t goes to the slot the engine chose for it."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def kv_write_kernel(
    key_ptr,  # [T, KV * D], rows `key_stride` apart
    value_ptr,  # [T, KV * D], rows `source_value_stride` apart
    cache_ptr,  # [blocks, 2, B, KV * D]
    slots_ptr,  # [T] int64
    key_stride,
    source_value_stride,
    block_stride,
    value_stride,
    slot_stride,
    width,  # KV * D
    BLOCK_SIZE: tl.constexpr,
    WIDTH: tl.constexpr,  # KV * D, padded to a power of two
):
    """Grid: (T,)."""
    token = tl.program_id(0)
    slot = tl.load(slots_ptr + token)
    lane = tl.arange(0, WIDTH)
    mask = lane < width
    key = tl.load(key_ptr + token.to(tl.int64) * key_stride + lane, mask)
    value = tl.load(value_ptr + token.to(tl.int64) * source_value_stride + lane, mask)
    target = cache_ptr + slot // BLOCK_SIZE * block_stride + slot % BLOCK_SIZE * slot_stride + lane
    tl.store(target, key, mask)
    tl.store(target + value_stride, value, mask)
