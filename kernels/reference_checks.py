"""What the torch references ask of a cache: the layout the batch was checked against, whatever its block size."""

from __future__ import annotations

import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import CacheLayout, layout_of


def check_cache(cache: torch.Tensor, layout: CacheLayout) -> None:
    """Raise InputError if `cache` is not of `layout`."""
    strides = (layout.block_stride, layout.value_stride, layout.slot_stride, 1)
    if cache.shape == layout.shape and cache.stride() == strides and cache.dtype is layout.dtype:
        return  # the usual case, four times in a step and layer: without building a layout to compare
    found = layout_of(cache, layout.num_kv_heads)
    if found != layout:
        raise InputError(f"cache has layout {found}; accepted: the one the batch was checked against, {layout}")
