"""Copying blocks, for copy-on-write: pairs of block ids, all layers in one launch. The typed wrapper."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton

from pagesim.kernels.block_copy_kernel import block_copy_kernel
from pagesim.kernels.block_pairs import checked_pairs
from pagesim.kernels.errors import InputError
from pagesim.kernels.runtime import card_of, on_device

STEP = 1024
MAX_PAIRS = 65_535


def copy_blocks(caches: Sequence[torch.Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """In every layer's cache, copy block `source` over block `target`, for each pair (source, target); one launch.

    Raises InputError on a block that is not there, or a target that is named twice or is also a source; BackendError
    where Triton cannot run.
    """
    sources, targets = checked_pairs(caches, pairs)
    first = caches[0]
    card_of(first.device)
    if len(pairs) > MAX_PAIRS or len(caches) > MAX_PAIRS:
        raise InputError(f"{len(pairs)} pairs in {len(caches)} layers; accepted: at most {MAX_PAIRS} of each")
    unaligned = [layer for layer, cache in enumerate(caches) if cache.data_ptr() % 16]
    if unaligned:
        raise InputError(f"the cache of layer {unaligned[0]} starts off a 16-byte boundary; accepted: on one")
    if not pairs:
        return
    layers = torch.tensor([cache.data_ptr() for cache in caches], dtype=torch.int64).to(first.device)
    num_elements = first[0].numel()
    with on_device(first.device):
        block_copy_kernel[(triton.cdiv(num_elements, STEP), len(pairs), len(caches))](
            layers, first, sources.to(first.device), targets.to(first.device),
            first.stride(0), num_elements, STEP=STEP, num_warps=4,
        )  # fmt: skip
