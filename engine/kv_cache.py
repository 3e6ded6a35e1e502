"""The cache itself: one real tensor, [layers, blocks, 2, block_size, kv_heads * head_dim], for whichever manager.

What a "block" is, is the manager's business: a block of a paged pool, the reservation of a sequence, or one row of all
slots in which runs of any length are placed. Left out: who owns what.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagesim.engine.models.weights import Weights
from pagesim.kernels.layout import CacheLayout, layout_of


@dataclass(frozen=True, slots=True)
class KvCache:
    """`layers`: per layer a view, [blocks, 2, block_size, kv_heads * head_dim]; all are of one `layout`."""

    layers: tuple[torch.Tensor, ...]
    layout: CacheLayout

    @classmethod
    def allocate(cls, weights: Weights, num_blocks: int, block_size: int, *, audit: bool = False) -> KvCache:
        """One allocation for all layers, in the dtype of `weights`. With `audit` slots hold NaN until they are written.

        On a CPU, memory is taken when it is written.
        """
        config = weights.config
        shape = (config.num_layers, num_blocks, 2, block_size, config.kv_size)
        pool = weights.embedding.new_zeros(shape)
        if audit:
            pool.fill_(float("nan"))
        return cls(tuple(pool.unbind()), layout_of(pool[0], config.num_kv_heads))

    @property
    def num_bytes(self) -> int:
        """Memory of all layers."""
        return sum(layer.nbytes for layer in self.layers)


def token_bytes(weights: Weights) -> int:
    """K and V of one token in all layers."""
    return 2 * weights.config.num_layers * weights.config.kv_size * weights.embedding.itemsize
