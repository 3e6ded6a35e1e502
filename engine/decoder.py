"""The forward pass of the Llama family, over a padding-free batch: rows are tokens, of whatever sequence and position.

What the rows have to do with one another is the business of the backend; the rest is row by row. All of it is computed
in the dtype of the weights.
"""

from __future__ import annotations

import torch
from torch.nn.functional import embedding, rms_norm, silu

from pagesim.engine.kv_cache import KvCache
from pagesim.engine.models.weights import LayerWeights, Weights
from pagesim.kernels.backends import Backend
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.packed import Packed
from pagesim.kernels.rotary import rotary_table, rotate

Turns = tuple[torch.Tensor, ...]  # cosines and sines, [T, 1, D] each


class Decoder:
    """A model ready to run over `cache` by way of `backend`, for positions below `max_model_len`."""

    def __init__(self, weights: Weights, max_model_len: int, cache: KvCache, backend: Backend) -> None:
        self._weights = weights
        self._config = weights.config
        table = rotary_table(self._config.rotary, self._config.head_dim, max_model_len)
        self._turns = table.to(weights.embedding)
        self._options = [AttentionOptions(self._config.head_dim**-0.5, window) for window in self._config.windows]
        self._layers = cache.layers
        self.backend = backend

    def logits(self, packed: Packed) -> torch.Tensor:
        """Logits of the next token after each of `packed.rows`, [R, vocab]; all tokens are computed and cached."""
        weights, epsilon = self._weights, self._config.rms_norm_eps
        hidden = embedding(packed.token_ids, weights.embedding)
        turns = self._turns.index_select(1, packed.positions).unbind()
        size = hidden.shape[1:]
        for number, layer in enumerate(weights.layers):
            normed = rms_norm(hidden, size, layer.input_norm, epsilon)
            hidden = hidden + self._attend(number, layer, normed, turns, packed)
            hidden = hidden + _mlp(layer, rms_norm(hidden, size, layer.mlp_norm, epsilon))
        last = rms_norm(hidden.index_select(0, packed.rows), size, weights.norm, epsilon)
        return weights.head(last)

    def _attend(
        self, number: int, layer: LayerWeights, normed: torch.Tensor, turns: Turns, packed: Packed
    ) -> torch.Tensor:
        """Query and key heads lie side by side in the product, and are turned together."""
        config = self._config
        heads = layer.qkv(normed).view(len(normed), -1, config.head_dim)
        keys_end = config.num_heads + config.num_kv_heads
        turned = rotate(self._normed_heads(layer, heads[:, :keys_end]), *turns)
        query, key = turned[:, : config.num_heads].contiguous(), turned[:, config.num_heads :]
        cache, options = self._layers[number], self._options[number]
        attended = self.backend.attend(query, key, heads[:, keys_end:], cache, packed, options)
        return layer.output(attended.flatten(1))

    def _normed_heads(self, layer: LayerWeights, heads: torch.Tensor) -> torch.Tensor:
        if layer.query_norm is None or layer.key_norm is None:
            return heads
        config, size = self._config, heads.shape[2:]
        query = rms_norm(heads[:, : config.num_heads], size, layer.query_norm, config.rms_norm_eps)
        key = rms_norm(heads[:, config.num_heads :], size, layer.key_norm, config.rms_norm_eps)
        return torch.cat((query, key), 1)


def _mlp(layer: LayerWeights, normed: torch.Tensor) -> torch.Tensor:
    gate, up = layer.gate_up(normed).chunk(2, -1)
    return layer.down(silu(gate).mul_(up))
