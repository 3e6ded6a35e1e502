"""The shape of the cache: one tensor per layer, [blocks, 2, block_size, kv_heads * head_dim], K and V together.

A contiguous cache has the same shape with one "block" per sequence, as long as the sequence's whole reservation: the
two differ in what a row of the first dimension means, and in nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagesim.kernels.errors import InputError, UnsupportedError

HEAD_DIMS = (64, 80, 96, 128, 256)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
TRITON_BLOCK_MULTIPLE = 16
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """What the kernels must know of one layer's cache.

    `block_size` is in tokens; for a contiguous cache it is the reservation of one sequence. Strides are in elements.
    """

    num_blocks: int
    block_size: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype
    block_stride: int
    value_stride: int
    slot_stride: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[blocks, 2, block_size, kv_heads * head_dim]."""
        return (self.num_blocks, 2, self.block_size, self.num_kv_heads * self.head_dim)


def units_view(cache: torch.Tensor, layout: CacheLayout, unit_tokens: int) -> torch.Tensor:
    """A view of the cache as [units, unit_tokens, kv_heads * head_dim]; `unit_tokens`: block_size, or 1.

    K of block b starts block_stride / (unit_tokens * slot_stride) * b units from the first, V block_size / unit_tokens
    units behind it. Where blocks lie apart, as in one layer of a larger pool, units between them belong to others.
    """
    size = unit_tokens * layout.slot_stride
    num_units = ((layout.num_blocks - 1) * layout.block_stride + 2 * layout.value_stride) // size
    return cache.as_strided((num_units, unit_tokens, layout.slot_stride), (size, layout.slot_stride, 1))


def layout_of(cache: torch.Tensor, num_kv_heads: int) -> CacheLayout:
    """The layout of `cache`, [blocks, 2, block_size, kv_heads * head_dim].

    Raises InputError if its shape, dtype or strides are not those of a cache, UnsupportedError on another head_dim.
    """
    if cache.dim() != 4 or cache.shape[1] != 2:
        raise InputError(f"cache has shape {list(cache.shape)}; accepted: [blocks, 2, block_size, kv_heads * head_dim]")
    check_dtype("cache", cache)
    num_blocks, _, block_size, width = cache.shape
    if num_blocks < 1 or block_size < 1:
        raise InputError(f"cache has shape {list(cache.shape)}; accepted: at least one block of at least one token")
    if num_kv_heads < 1 or width % num_kv_heads:
        raise InputError(f"num_kv_heads is {num_kv_heads}; accepted: a divisor of the cache's last dimension, {width}")
    check_head_dim(width // num_kv_heads)
    if not cache[0].is_contiguous():
        raise InputError(f"cache has strides {list(cache.stride())}; accepted: a block that is contiguous in itself")
    if cache.stride(0) % (block_size * width):
        raise InputError(f"cache has strides {list(cache.stride())}; accepted: blocks a whole number of halves apart")
    return CacheLayout(
        num_blocks,
        block_size,
        num_kv_heads,
        width // num_kv_heads,
        cache.dtype,
        cache.stride(0),
        block_size * width,
        width,
    )


def check_head_dim(head_dim: int) -> None:
    """Raise UnsupportedError unless a kernel exists for `head_dim`."""
    if head_dim not in HEAD_DIMS:
        raise UnsupportedError(f"head_dim is {head_dim}; accepted: {', '.join(map(str, HEAD_DIMS))}")


def check_dtype(name: str, tensor: torch.Tensor) -> None:
    """Raise InputError unless `tensor` is of a dtype the kernels read."""
    if tensor.dtype not in DTYPES:
        raise InputError(f"{name} has dtype {tensor.dtype}; accepted: float16, bfloat16, float32")


def check_block_size(block_size: int) -> None:
    """Raise UnsupportedError unless the Triton backend takes blocks of `block_size` tokens."""
    if block_size % TRITON_BLOCK_MULTIPLE:
        raise UnsupportedError(
            f"block_size is {block_size}; the Triton backend takes multiples of {TRITON_BLOCK_MULTIPLE}"
        )


def check_query(query: torch.Tensor, layout: CacheLayout, rows: int) -> None:
    """Raise InputError unless `query` is [rows, heads, head_dim], contiguous, and fits the cache's heads and dtype."""
    if query.dim() != 3 or query.shape[0] != rows or query.shape[2] != layout.head_dim:
        raise InputError(f"query has shape {list(query.shape)}; accepted: [{rows}, heads, {layout.head_dim}]")
    num_heads = query.shape[1]
    if num_heads < 1 or num_heads % layout.num_kv_heads:
        raise InputError(f"query has {num_heads} heads; accepted: a multiple of the {layout.num_kv_heads} KV heads")
    if query.dtype != layout.dtype:
        raise InputError(f"query has dtype {query.dtype}; accepted: the cache's, {layout.dtype}")
    if not query.is_contiguous():
        raise InputError(f"query has strides {list(query.stride())}; accepted: a contiguous tensor")
    if query.numel() > INT32_MAX:
        raise InputError(f"query has {query.numel()} elements; accepted: at most {INT32_MAX}")


def check_same_device(**tensors: torch.Tensor) -> None:
    """Raise InputError unless all tensors lie on one device."""
    if len({tensor.device for tensor in tensors.values()}) > 1:
        placed = ", ".join(f"{name} on {tensor.device}" for name, tensor in tensors.items())
        raise InputError(f"{placed}; accepted: all on one device")


def check_new_tokens(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, layout: CacheLayout, num_tokens: int
) -> None:
    """Raise InputError unless `key` and `value` are [num_tokens, kv_heads, head_dim] of the cache's dtype."""
    shape = [num_tokens, layout.num_kv_heads, layout.head_dim]
    for name, tensor in (("key", key), ("value", value)):
        if list(tensor.shape) != shape or tensor.dtype != layout.dtype:
            raise InputError(
                f"{name} has shape {list(tensor.shape)}, {tensor.dtype}; accepted: {shape}, {layout.dtype}"
            )
        if not tensor[:1].is_contiguous():
            raise InputError(f"{name} has strides {list(tensor.stride())}; accepted: a token's heads contiguous")
    check_same_device(key=key, value=value, cache=cache)
