"""Which layers of a model keep every token, a window of them, or no growing cache at all, from its config.json.

Ways of saying so have multiplied. They are tried from the most explicit to the least; where a window is set and nothing
says which layers have it, that is an error, not a guess. Rules are those of transformers' configuration classes.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from pagesim.sim.catalog.configfields import ConfigFields
from pagesim.sim.errors import GeometryError


class Keeps(Enum):
    """What a layer keeps of the past."""

    ALL = "every token"
    WINDOW = "a sliding window"
    CHUNK = "the current chunk"
    NOTHING = "no growing cache"


NAMES = {
    "full_attention": Keeps.ALL, "attention": Keeps.ALL, "hybrid": Keeps.ALL,
    "sliding_attention": Keeps.WINDOW,
    "chunked_attention": Keeps.CHUNK,
    "linear_attention": Keeps.NOTHING, "mamba": Keeps.NOTHING, "mamba2": Keeps.NOTHING, "conv": Keeps.NOTHING,
    "recurrent": Keeps.NOTHING, "mlp": Keeps.NOTHING, "moe": Keeps.NOTHING,
}  # fmt: skip
LETTERS = {"*": Keeps.ALL, "M": Keeps.NOTHING, "-": Keeps.NOTHING, "E": Keeps.NOTHING}

EVERY_LAYER_WINDOWED = {"mistral", "mixtral", "phi3", "phimoe", "starcoder2"}
ABSENT_WINDOW = {"mistral": 4096}
PERIODS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""Defaults of `sliding_window_pattern` in transformers: every n-th layer is full, the others are windowed."""

NOT_MODELLED = {
    "is_encoder_decoder": "an encoder-decoder keeps a second cache, of the encoder's output",
    "cross_attention_layers": "cross-attention layers keep the image's keys and values",
    "index_head_dim": "the sparse-attention indexer keeps a cache of its own",
    "attention_types": "the pattern of local layers is written in a form of its own",
    "use_cla": "layers share their caches across layers",
    "block_types": "the pattern of recurrent layers is written in a form of its own",
    "compress_ratios": "layers keep compressed tokens",
}


def layer_pattern(fields: ConfigFields) -> tuple[Keeps, ...]:
    """What each layer keeps, in order. Raises GeometryError naming the field that is missing or not understood."""
    for name, why in NOT_MODELLED.items():
        if fields.get(name):
            raise GeometryError(f"{fields.source}: {name} is set: {why}; accepted: --bytes-per-token in its place")
    num_layers = fields.whole("num_hidden_layers", "n_layer", "n_layers")
    pattern = _listed(fields) or _periodic(fields, num_layers) or _windowed(fields, num_layers)
    if len(pattern) != num_layers:
        raise GeometryError(f"{fields.source}: {num_layers} layers, but the list of their kinds has {len(pattern)}")
    shared = fields.optional_whole("num_kv_shared_layers") if fields.get("num_kv_shared_layers") else None
    if shared is not None and shared >= num_layers:
        raise fields.wrong("num_kv_shared_layers", shared, f"less than the {num_layers} layers")
    return pattern if shared is None else (*pattern[: num_layers - shared], *[Keeps.NOTHING] * shared)


def _listed(fields: ConfigFields) -> tuple[Keeps, ...] | None:
    """Layers named one by one."""
    for name in ("layer_types", "layers_block_type"):
        if entries := fields.listed(name):
            return tuple(_known(fields, name, entry, NAMES) for entry in entries)
    letters = fields.get("hybrid_override_pattern")
    if isinstance(letters, str):
        return tuple(_known(fields, "hybrid_override_pattern", letter, LETTERS) for letter in letters)
    if entries := fields.listed("attn_type_list"):
        return tuple(_known(fields, "attn_type_list", entry, {0: Keeps.NOTHING, 1: Keeps.ALL}) for entry in entries)
    if blocks := fields.listed("block_configs"):
        attentions = (fields.block_attention(index) for index in range(len(blocks)))
        return tuple(Keeps.NOTHING if block is None or block.get("no_op") else Keeps.ALL for block in attentions)
    return None


def _known(fields: ConfigFields, name: str, entry: Any, meaning: dict[Any, Keeps]) -> Keeps:
    if not isinstance(entry, (str, int)) or entry not in meaning:
        raise fields.wrong(f"an entry of {name}", entry, ", ".join(str(word) for word in meaning))
    return meaning[entry]


def _periodic(fields: ConfigFields, num_layers: int) -> tuple[Keeps, ...] | None:
    """Layers without a growing cache, all but every n-th; or all but a list of attention layers."""
    kimi = fields.nested("linear_attn_config")
    if kimi is not None:  # Kimi Linear counts layers from 1
        return _full_at({layer - 1 for layer in kimi.counts("full_attn_layers") or ()}, num_layers)
    if indices := fields.counts("attn_layer_indices"):  # Bamba
        return _full_at(set(indices), num_layers)
    if period := fields.optional_whole("attn_layer_period"):  # Jamba
        return _full_at(set(range(fields.count("attn_layer_offset"), num_layers, period)), num_layers)
    if fields.model_type.startswith("qwen3_next") or fields.get("full_attention_interval"):
        interval = fields.optional_whole("full_attention_interval") or 4
        return _full_at(set(range(interval - 1, num_layers, interval)), num_layers)
    return None


def _full_at(full: set[int], num_layers: int) -> tuple[Keeps, ...]:
    return tuple(Keeps.ALL if layer in full else Keeps.NOTHING for layer in range(num_layers))


def _windowed(fields: ConfigFields, num_layers: int) -> tuple[Keeps, ...]:
    """Attention in every layer; in some of them over a window."""
    if fields.model_type.startswith("llama4") and fields.get("attention_chunk_size"):
        interval = fields.optional_whole("no_rope_layer_interval") or 4
        rope = fields.listed("no_rope_layers") or [(layer + 1) % interval != 0 for layer in range(num_layers)]
        return tuple(Keeps.CHUNK if with_rope else Keeps.ALL for with_rope in rope)
    if fields.model_type.startswith("qwen") or fields.has("use_sliding_window"):
        return _qwen(fields, num_layers)
    if window_of(fields) is None:
        _refuse_unknown_mixers(fields)
        return (Keeps.ALL,) * num_layers
    period = fields.get("sliding_window_pattern") or PERIODS.get(fields.model_type)
    if isinstance(period, int) and period >= 1:
        return tuple(Keeps.WINDOW if (layer + 1) % period else Keeps.ALL for layer in range(num_layers))
    if fields.model_type in EVERY_LAYER_WINDOWED:
        return (Keeps.WINDOW,) * num_layers
    raise GeometryError(
        f"{fields.source}: sliding_window is {window_of(fields)} and nothing says which layers have it; "
        "accepted: layer_types, or a whole-number sliding_window_pattern"
    )


def _qwen(fields: ConfigFields, num_layers: int) -> tuple[Keeps, ...]:
    """Qwen2 and 3 ship a window that is switched off; on, it holds from layer max_window_layers upwards."""
    if not fields.get("use_sliding_window") or window_of(fields) is None:
        return (Keeps.ALL,) * num_layers
    first = fields.count("max_window_layers")
    return tuple(Keeps.WINDOW if layer >= first else Keeps.ALL for layer in range(num_layers))


def _refuse_unknown_mixers(fields: ConfigFields) -> None:
    """Fields of a state-space model, and nothing above said which layers are attention. Falcon-H1: all of them."""
    mixers = [name for name in fields.fields if name.startswith(("mamba_", "ssm_"))]
    if mixers and fields.model_type != "falcon_h1":
        raise GeometryError(
            f"{fields.source}: {mixers[0]} is set and nothing says which layers are attention; accepted: layer_types"
        )


def window_of(fields: ConfigFields) -> int | None:
    """The window in tokens, or None. Mistral's class has one where the file says nothing (null switches it off)."""
    if not fields.has("sliding_window"):
        return ABSENT_WINDOW.get(fields.model_type)
    return fields.optional_whole("sliding_window")
