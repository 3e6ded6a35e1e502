"""The tensors of a decoder: Q, K and V fused into one matrix, gate and up into another, one product each.

Whoever has the numbers writes them into views of those matrices, under the names of a Hugging Face checkpoint. On a CPU
a matrix is then laid out anew, as oneDNN reads it, before the next is made. Left out: quantised weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from pagesim.engine.models.model_config import ModelConfig
from pagesim.kernels.linear import Linear, can_pack

Fill = Callable[[str, torch.Tensor], None]  # writes the tensor of that name in a checkpoint


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. `query_norm` and `key_norm`: [head_dim], where the family has them."""

    input_norm: torch.Tensor
    qkv: Linear
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole decoder. `head` shares the memory of `embedding`, [vocab, hidden], where they are tied and not packed.

    `num_bytes`: of all weights, each counted once. `copy_bytes`: of a tied head that is packed, and so a second copy,
    since a packed matrix cannot be looked tokens up in.
    """

    config: ModelConfig
    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Linear
    num_bytes: int
    copy_bytes: int


def make_weights(config: ModelConfig, like: torch.Tensor, fill: Fill, *, pack: bool) -> Weights:
    """Of the dtype and on the device of `like`, every tensor filled once. `pack`: where oneDNN can."""
    make = _Maker(like, fill, pack and can_pack(like))
    embedding = make.tensor("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
    layers = tuple(_layer(config, make, f"model.layers.{number}.") for number in range(config.num_layers))
    norm = make.tensor("model.norm.weight", config.hidden_size)
    head = embedding if config.tie_embeddings else make.tensor("lm_head.weight", *embedding.shape)
    last = Linear(head, None).packed() if make.pack else Linear(head, None)
    copy_bytes = last.weight.nbytes if last.is_packed and config.tie_embeddings else 0
    return Weights(config, embedding, layers, norm, last, make.num_bytes, copy_bytes)


def random_fill(device: torch.device, seed: int) -> Fill:
    """Seeded normal weights, of a scale at which every layer takes part in the result; norms are 1, biases small."""
    random = torch.Generator(device).manual_seed(seed)

    def fill(name: str, tensor: torch.Tensor) -> None:
        if name.endswith("norm.weight"):
            tensor.fill_(1.0)
        else:
            tensor.normal_(0.0, 0.1 if name.endswith("bias") else tensor.shape[1] ** -0.5, generator=random)

    return fill


def _layer(config: ModelConfig, make: _Maker, prefix: str) -> LayerWeights:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, kv, head_dim = config.query_size, config.kv_size, config.head_dim
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    return LayerWeights(
        input_norm=make.tensor(f"{prefix}input_layernorm.weight", hidden),
        qkv=make.linear(attention, {"q_proj": query, "k_proj": kv, "v_proj": kv}, hidden, config.qkv_bias),
        query_norm=make.tensor(f"{attention}q_norm.weight", head_dim) if config.qk_norm else None,
        key_norm=make.tensor(f"{attention}k_norm.weight", head_dim) if config.qk_norm else None,
        output=make.linear(attention, {"o_proj": hidden}, query, config.output_bias),
        mlp_norm=make.tensor(f"{prefix}post_attention_layernorm.weight", hidden),
        gate_up=make.linear(mlp, {"gate_proj": inner, "up_proj": inner}, hidden, config.mlp_bias),
        down=make.linear(mlp, {"down_proj": hidden}, inner, config.mlp_bias),
    )


@dataclass(slots=True)
class _Maker:
    """Makes tensors, has them filled, and counts their bytes."""

    like: torch.Tensor
    fill: Fill
    pack: bool
    num_bytes: int = 0

    def tensor(self, name: str, *shape: int) -> torch.Tensor:
        return self._filled(name, self.like.new_empty(shape))

    def linear(self, prefix: str, parts: dict[str, int], in_size: int, has_bias: bool) -> Linear:
        """Matrices of `parts`, name to rows, one below the other."""
        out_size, first = sum(parts.values()), 0
        weight = self.like.new_empty(out_size, in_size)
        bias = self.like.new_empty(out_size) if has_bias else None
        for name, rows in parts.items():
            self._filled(f"{prefix}{name}.weight", weight[first : first + rows])
            if bias is not None:
                self._filled(f"{prefix}{name}.bias", bias[first : first + rows])
            first += rows
        return Linear(weight, bias).packed() if self.pack else Linear(weight, bias)

    def _filled(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        self.fill(name, tensor)
        self.num_bytes += tensor.nbytes
        return tensor
