"""Copying blocks, for copy-on-write: pairs of block ids, all layers in one launch."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def block_copy_kernel(
    layers_ptr,  # [L] int64: the address of each layer's cache, [blocks, 2, B, KV * D]
    like_ptr,  # layer 0 again: says what the addresses point to
    sources_ptr,  # [P] int64
    targets_ptr,  # [P] int64
    block_stride,
    num_elements,  # of a block: 2 * B * KV * D
    STEP: tl.constexpr,
):
    """Grid: (steps of a block, P, L)."""
    cache = tl.load(layers_ptr + tl.program_id(2)).to(tl.pointer_type(like_ptr.dtype.element_ty))
    cache = tl.multiple_of(cache, 16)
    source = tl.load(sources_ptr + tl.program_id(1)) * block_stride
    target = tl.load(targets_ptr + tl.program_id(1)) * block_stride
    lane = tl.program_id(0) * STEP + tl.arange(0, STEP)
    mask = lane < num_elements
    tl.store(cache + target + lane, tl.load(cache + source + lane, mask), mask)
