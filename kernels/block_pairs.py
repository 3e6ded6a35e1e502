"""Pairs of block ids for copy-on-write: (source, target), checked so that no copy can race with another."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import check_dtype, check_same_device


def checked_pairs(
    caches: Sequence[torch.Tensor], pairs: Sequence[tuple[int, int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and targets, [pairs] int64 each, on the host.

    Raises InputError on a block that is not there, a target named twice or also a source, or layers that differ.
    """
    _check_layers(caches)
    num_blocks = len(caches[0])
    for pair in pairs:
        for block in pair:
            if not 0 <= block < num_blocks:
                raise InputError(f"pair {tuple(pair)} names block {block}; accepted: 0 to {num_blocks - 1}")
    sources = {source for source, _ in pairs}
    targets: set[int] = set()
    for pair in pairs:
        if pair[1] in targets or pair[1] in sources:
            raise InputError(f"pair {tuple(pair)}: block {pair[1]} is named twice; accepted: a target is named once")
        targets.add(pair[1])
    table = torch.tensor(list(pairs), dtype=torch.int64).view(-1, 2)
    return table[:, 0].contiguous(), table[:, 1].contiguous()


def _check_layers(caches: Sequence[torch.Tensor]) -> None:
    if not caches:
        raise InputError("no cache was given; accepted: one tensor per layer")
    first = caches[0]
    for layer, cache in enumerate(caches):
        check_dtype(f"the cache of layer {layer}", cache)
        if cache.shape != first.shape or cache.dtype != first.dtype or cache.stride() != first.stride():
            raise InputError(
                f"layer {layer} has shape {list(cache.shape)}, {cache.dtype}; accepted: that of layer 0, "
                f"{list(first.shape)}, {first.dtype}, and its strides"
            )
        if cache.dim() != 4 or not cache[:1].is_contiguous():
            raise InputError(
                f"layer {layer} has strides {list(cache.stride())}; accepted: blocks contiguous in themselves"
            )
    check_same_device(**{f"layer_{layer}": cache for layer, cache in enumerate(caches)})
