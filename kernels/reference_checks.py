"""What the torch references ask of a cache: the layout the batch was checked against, whatever its block size."""

from __future__ import annotations

import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import CacheLayout, layout_of


def check_cache(cache: torch.Tensor, layout: CacheLayout) -> None:
    """Raise InputError if `cache` is not of `layout`."""
    if not layout.describes(cache):
        found = layout_of(cache, layout.num_kv_heads)  # a dimension of one may have any stride
        if found != layout:
            raise InputError(f"cache has layout {found}; accepted: the one the batch was checked against, {layout}")
