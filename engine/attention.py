"""A batch's attention: new K and V into their slots, then decodes and prefill chunks to their kernels.

Rows of a batch come decodes first.
"""

from __future__ import annotations

import torch

from pagesim.engine.batch import Batch
from pagesim.engine.kv_cache import KvCache
from pagesim.engine.models.model_config import ModelConfig
from pagesim.kernels.backends import Backend
from pagesim.kernels.options import AttentionOptions


class Attention:
    """What every layer does with one cache, by way of `backend`."""

    def __init__(self, backend: Backend, cache: KvCache, config: ModelConfig) -> None:
        self.backend = backend
        self._caches = cache.layers
        self._options = [AttentionOptions(config.head_dim**-0.5, window) for window in config.windows]

    def __call__(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, batch: Batch
    ) -> torch.Tensor:
        """`query`: [T, heads, D]; `key`, `value`: [T, KV heads, D]. Returns [T, heads, D].

        The first rows are the `decodes` of the batch, one each, and the rest are its `prefills`.
        """
        cache, options = self._caches[layer], self._options[layer]
        self.backend.write(key, value, cache, batch.slots)
        if batch.prefills is None:
            assert batch.decodes is not None
            return self.backend.decode(query, cache, batch.decodes, options)
        if batch.decodes is None:
            return self.backend.prefill(query, cache, batch.prefills, options)
        split = len(batch.decodes)
        decoded = self.backend.decode(query[:split], cache, batch.decodes, options)
        return torch.cat((decoded, self.backend.prefill(query[split:], cache, batch.prefills, options)))
