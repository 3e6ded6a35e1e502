"""The tensors of a decoder: Q, K and V fused into one matrix, gate and up into another, one product each.

A weight is known twice: where the decoder reads it, and by the names of a Hugging Face checkpoint, as views into the
same memory (`named_views`). Loading and random filling write through the views. Then, on a CPU, the matrices are laid
out anew, as oneDNN reads them, and the views are gone (`packed`). Left out: quantised weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pagesim.engine.models.model_config import ModelConfig

ROWS = 256  # of the product that weights are packed for; of 1, 16 and 256 it was fastest for nearly all from 1 to 256


@dataclass(frozen=True, slots=True)
class Linear:
    """`weight`: [out, in], packed or not; `bias`: [out] or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, in] to [rows, out]."""
        if self.weight.is_mkldnn:
            product = torch.ops.mkldnn._linear_pointwise.default
            rows: torch.Tensor = product(x, self.weight, self.bias, "none", [], "")
            return rows
        return torch.nn.functional.linear(x, self.weight, self.bias)

    def packed(self) -> Linear:
        """The same, its weights in the order in which oneDNN reads them; others it reorders in every product."""
        return Linear(torch.ops.mkldnn._reorder_linear_weight(self.weight, ROWS), self.bias)

    @classmethod
    def empty(cls, out_size: int, in_size: int, bias: bool, like: torch.Tensor) -> Linear:
        """Uninitialised, of the dtype and on the device of `like`."""
        return cls(like.new_empty(out_size, in_size), like.new_empty(out_size) if bias else None)

    def named(self, parts: dict[str, int]) -> dict[str, torch.Tensor]:
        """Views of consecutive rows by name: `parts` is name to number of rows."""
        views, first = {}, 0
        for name, rows in parts.items():
            views[f"{name}.weight"] = self.weight[first : first + rows]
            if self.bias is not None:
                views[f"{name}.bias"] = self.bias[first : first + rows]
            first += rows
        return views


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

    def packed(self) -> LayerWeights:
        """The same with packed matrices."""
        names = ("qkv", "output", "gate_up", "down")
        return replace(self, **{name: getattr(self, name).packed() for name in names})


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole decoder. `head` shares the memory of `embedding`, [vocab, hidden], where they are tied and not packed.

    `num_bytes`: of all weights, each counted once.
    """

    config: ModelConfig
    embedding: torch.Tensor
    layers: list[LayerWeights]
    norm: torch.Tensor
    head: Linear
    num_bytes: int = 0

    @classmethod
    def empty(cls, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Weights:
        """Uninitialised, to be filled through `named_views`."""
        like = torch.empty(0, dtype=dtype, device=device)
        embedding = like.new_empty(config.vocab_size, config.hidden_size)
        layers = [_empty_layer(config, like) for _ in range(config.num_layers)]
        head = embedding if config.tie_embeddings else like.new_empty(config.vocab_size, config.hidden_size)
        made = cls(config, embedding, layers, like.new_empty(config.hidden_size), Linear(head, None))
        return replace(made, num_bytes=sum(view.nbytes for view in made.named_views().values()))

    def named_views(self) -> dict[str, torch.Tensor]:
        """Every weight once, by its name in a checkpoint."""
        views = {"model.embed_tokens.weight": self.embedding, "model.norm.weight": self.norm}
        for number, layer in enumerate(self.layers):
            prefix = f"model.layers.{number}."
            views |= {prefix + name: view for name, view in _layer_views(layer, self.config).items()}
        if not self.config.tie_embeddings:
            views["lm_head.weight"] = self.head.weight
        return views

    def packed(self) -> Weights:
        """The same as the device reads it fastest: packed, on a CPU whose oneDNN knows the dtype.

        Each matrix is given up as soon as it is packed. A tied head is a second copy: a product cannot look tokens up.
        """
        if not packs(self.embedding.device, self.embedding.dtype):
            return self
        for number, layer in enumerate(self.layers):
            self.layers[number] = layer.packed()
        return replace(self, head=self.head.packed())

    @property
    def is_packed(self) -> bool:
        """Whether the views are gone."""
        return self.head.weight.is_mkldnn

    @property
    def copy_bytes(self) -> int:
        """Memory of the second copy of a tied head that is packed."""
        return self.head.weight.nbytes if self.config.tie_embeddings and self.is_packed else 0


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN is there, and computes in `dtype` on this processor."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype is torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


def _empty_layer(config: ModelConfig, like: torch.Tensor) -> LayerWeights:
    hidden, inner = config.hidden_size, config.intermediate_size
    return LayerWeights(
        input_norm=like.new_empty(hidden),
        qkv=Linear.empty(config.query_size + 2 * config.kv_size, hidden, config.qkv_bias, like),
        query_norm=like.new_empty(config.head_dim) if config.qk_norm else None,
        key_norm=like.new_empty(config.head_dim) if config.qk_norm else None,
        output=Linear.empty(hidden, config.query_size, config.output_bias, like),
        mlp_norm=like.new_empty(hidden),
        gate_up=Linear.empty(2 * inner, hidden, config.mlp_bias, like),
        down=Linear.empty(hidden, inner, config.mlp_bias, like),
    )


def _layer_views(layer: LayerWeights, config: ModelConfig) -> dict[str, torch.Tensor]:
    query, kv, inner = config.query_size, config.kv_size, config.intermediate_size
    views = {
        "input_layernorm.weight": layer.input_norm,
        **layer.qkv.named({"self_attn.q_proj": query, "self_attn.k_proj": kv, "self_attn.v_proj": kv}),
        **layer.output.named({"self_attn.o_proj": config.hidden_size}),
        "post_attention_layernorm.weight": layer.mlp_norm,
        **layer.gate_up.named({"mlp.gate_proj": inner, "mlp.up_proj": inner}),
        **layer.down.named({"mlp.down_proj": config.hidden_size}),
    }
    if layer.query_norm is not None and layer.key_norm is not None:
        views |= {"self_attn.q_norm.weight": layer.query_norm, "self_attn.k_norm.weight": layer.key_norm}
    return views


def fill_randomly(weights: Weights, seed: int) -> None:
    """Seeded normal weights, of a scale at which every layer takes part in the result; norms are 1, biases small."""
    random = torch.Generator(weights.embedding.device).manual_seed(seed)
    for name, view in weights.named_views().items():
        if name.endswith("norm.weight"):
            view.fill_(1.0)
        elif name.endswith("bias"):
            view.normal_(0.0, 0.1, generator=random)
        else:
            view.normal_(0.0, view.shape[1] ** -0.5, generator=random)
