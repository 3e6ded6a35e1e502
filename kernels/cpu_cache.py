"""Writing K and V into the cache and copying blocks, in plain torch: references, and the CPU backend of the engine."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pagesim.kernels.block_pairs import checked_pairs
from pagesim.kernels.layout import check_new_tokens, units_view
from pagesim.kernels.reference_checks import check_cache
from pagesim.kernels.slots import Slots


def write_kv_cpu(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slots: Slots) -> None:
    """Put token t's `key` and `value`, [T, kv_heads, head_dim] each, into slot `slots.mapping[t]` of `cache`.

    Raises InputError if they do not fit together.
    """
    layout = slots.layout
    check_cache(cache, layout)
    check_new_tokens(key, value, cache, layout, len(slots))
    rows = units_view(cache, layout, 1).flatten(1)
    key_rows, value_rows = slots.rows
    rows.index_copy_(0, key_rows, key.flatten(1))
    rows.index_copy_(0, value_rows, value.flatten(1))


def copy_blocks_cpu(caches: Sequence[torch.Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """In every layer's cache, copy block `source` over block `target`, for each pair (source, target).

    Raises InputError on a block that is not there, or a target that is named twice or is also a source.
    """
    sources, targets = checked_pairs(caches, pairs)
    for cache in caches:
        cache[targets.to(cache.device)] = cache[sources.to(cache.device)]
