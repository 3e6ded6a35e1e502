"""Writing new K and V into the cache: token t goes to the slot the engine chose for it. The typed wrapper."""

from __future__ import annotations

import torch
import triton

from pagesim.kernels.errors import InputError
from pagesim.kernels.kv_write_kernel import kv_write_kernel
from pagesim.kernels.layout import INT32_MAX, check_block_size, check_new_tokens
from pagesim.kernels.reference_checks import check_cache
from pagesim.kernels.runtime import card_of, on_device
from pagesim.kernels.slots import Slots


def write_kv(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slots: Slots) -> None:
    """Put token t's `key` and `value`, [T, kv_heads, head_dim] each, into slot `slots.mapping[t]` of `cache`.

    Raises InputError or UnsupportedError on what the kernel cannot take, BackendError where Triton cannot run.
    """
    card_of(cache.device)
    layout = slots.layout
    check_cache(cache, layout)
    check_block_size(layout.block_size)
    check_new_tokens(key, value, cache, layout, len(slots))
    check_slot_device(slots, cache)
    if not len(slots):
        return
    width = layout.num_kv_heads * layout.head_dim
    if len(slots) > INT32_MAX:
        raise InputError(f"{len(slots)} tokens in one launch; accepted: at most {INT32_MAX}")
    with on_device(cache.device):
        kv_write_kernel[(len(slots),)](
            key, value, cache, slots.mapping,
            key.stride(0), value.stride(0), layout.block_stride, layout.value_stride, layout.slot_stride, width,
            BLOCK_SIZE=layout.block_size, WIDTH=triton.next_power_of_2(width), num_warps=4,
        )  # fmt: skip


def check_slot_device(slots: Slots, cache: torch.Tensor) -> None:
    """Raise InputError if the slot mapping lies on another device than the cache."""
    if slots.mapping.device != cache.device:
        raise InputError(f"slot_mapping on {slots.mapping.device}, cache on {cache.device}; accepted: one device")
