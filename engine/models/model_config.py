"""What a model is: the config.json of a decoder of the Llama family, checked and made one shape for all families.

The families differ in biases, in a norm on queries and keys, and in sliding windows; nothing else is family-specific.
Left out: mixtures of experts, other activations, rotary scalings other than linear and llama3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pagesim.engine.errors import ModelError
from pagesim.kernels.rotary import KINDS, RotaryConfig

FAMILIES = {
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
}
DTYPES = ("float32", "bfloat16", "float16")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One decoder. `windows`: per layer, the tokens a query sees, or None for all. `dtype`: as the weights are stored.

    `qkv_bias`, `output_bias`, `mlp_bias`: which projections have one. `qk_norm`: RMSNorm over each head of q and k.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rotary: RotaryConfig
    windows: tuple[int | None, ...]
    tie_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    max_position_embeddings: int
    dtype: str
    eos_token_ids: frozenset[int]

    @property
    def query_size(self) -> int:
        """Width of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all KV heads: of K, and of V."""
        return self.num_kv_heads * self.head_dim


def read_config(config: Json, name: str) -> ModelConfig:
    """Read a Hugging Face config. `name`: the model, for messages. Raises ModelError that names the field."""
    size = partial(_size, config, name)
    family = _family(config, name)
    if config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{name}: hidden_act is {config['hidden_act']}; accepted: silu")
    heads, hidden = size("num_attention_heads"), size("hidden_size")
    kv_heads = size("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(
            f"{name}: num_attention_heads is {heads}; accepted: a multiple of num_key_value_heads, {kv_heads}"
        )
    attention_bias = bool(config.get("attention_bias", False))
    return ModelConfig(
        vocab_size=size("vocab_size"),
        hidden_size=hidden,
        intermediate_size=size("intermediate_size"),
        num_layers=size("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=size("head_dim", hidden // heads),
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rotary=_rotary(config, name),
        windows=_windows(config, family, size("num_hidden_layers"), name),
        tie_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or (attention_bias and family != "mistral"),
        output_bias=attention_bias and family in ("llama", "qwen3"),
        mlp_bias=family == "llama" and bool(config.get("mlp_bias", False)),
        qk_norm=family == "qwen3",
        max_position_embeddings=size("max_position_embeddings", 2048),
        dtype=_dtype(config, name),
        eos_token_ids=eos_token_ids(config),
    )


def eos_token_ids(config: Json) -> frozenset[int]:
    """The tokens that end a text: `eos_token_id` is one, several or none."""
    value = config.get("eos_token_id")
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, int) else value)


def _size(config: Json, name: str, field: str, default: int | None = None) -> int:
    value = config.get(field)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelError(f"{name}: {field} is {value}; accepted: a whole number above 0")
    return value


def _family(config: Json, name: str) -> str:
    architectures = config.get("architectures") or [config.get("model_type")]
    for architecture in architectures:
        for known, family in FAMILIES.items():
            if architecture in (known, family):
                return family
    found = ", ".join(map(str, architectures))
    raise ModelError(f"{name}: the architecture is {found}; accepted: {', '.join(FAMILIES)}")


def _dtype(config: Json, name: str) -> str:
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "float32").removeprefix("torch.")
    if dtype not in DTYPES:
        raise ModelError(f"{name}: dtype is {dtype}; accepted: {', '.join(DTYPES)}")
    return dtype


def _rotary(config: Json, name: str) -> RotaryConfig:
    """From `rope_theta` and `rope_scaling`, or the newer `rope_parameters`. Raises ModelError on another scaling."""
    given: dict[str, Any] = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in KINDS:
        raise ModelError(f"{name}: the rotary scaling is {kind}; accepted: {', '.join(KINDS)}")
    if given.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(f"{name}: partial_rotary_factor is {given['partial_rotary_factor']}; accepted: 1.0")
    default = RotaryConfig(0.0)
    return RotaryConfig(
        theta=float(given.get("rope_theta") or config.get("rope_theta") or 10000.0),
        kind=kind,
        factor=float(given.get("factor", default.factor)),
        low_freq_factor=float(given.get("low_freq_factor", default.low_freq_factor)),
        high_freq_factor=float(given.get("high_freq_factor", default.high_freq_factor)),
        original_max_positions=int(given.get("original_max_position_embeddings", default.original_max_positions)),
    )


def _windows(config: Json, family: str, num_layers: int, name: str) -> tuple[int | None, ...]:
    """Which layers see a sliding window: Mistral's all or none; Qwen's as `layer_types` or `max_window_layers` say."""
    window = config.get("sliding_window")
    if family == "llama" or window is None:
        return (None,) * num_layers
    if not isinstance(window, int) or window < 1:
        raise ModelError(f"{name}: sliding_window is {window}; accepted: a number of tokens above 0, or null")
    if family == "mistral":
        return (window,) * num_layers
    if not config.get("use_sliding_window", False):
        return (None,) * num_layers
    first = config.get("max_window_layers", 28)
    kinds = config.get("layer_types") or [
        "sliding_attention" if layer >= first else "full_attention" for layer in range(num_layers)
    ]
    if len(kinds) != num_layers:
        raise ModelError(f"{name}: layer_types has {len(kinds)} entries; accepted: {num_layers}, one for each layer")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
