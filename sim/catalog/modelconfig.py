"""A model as the memory of a card sees it, from its config.json: layers, heads, numbers per token, widths.

Left out: speculative heads (num_nextn_predict_layers) and vision or audio towers, whose weights count only where a
checkpoint's size says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pagesim.sim.catalog.configfields import ConfigFields, read_config_fields
from pagesim.sim.catalog.layerpattern import Keeps, layer_pattern, window_of
from pagesim.sim.errors import GeometryError
from pagesim.sim.geometry import LayerCache, Layers

HEADS = ("num_attention_heads", "n_head", "n_heads")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
ONE_KV_HEAD_EACH = {
    "baichuan", "bloom", "codegen", "gpt2", "gpt_neox", "gptj", "internlm", "llama", "mpt", "olmo", "opt", "phi",
    "phi3", "qwen", "xglm",
}  # fmt: skip
"""Architectures in which an absent num_key_value_heads means one KV head for each query head."""

CLASS_DEFAULTS = {"gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}}
"""What published files leave to transformers' configuration class (gemma-3-4b and 12b do)."""

DTYPE_BYTES = {
    "float16": 2, "half": 2, "bfloat16": 2, "float32": 4, "float": 4, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of a model. `None` marks a fact that its source does not give.

    `mlp_numbers`: numbers that one MLP makes of one token at once (gate, up and their product, of every expert it
    visits), for the estimate of activations. `weights_bytes`: of all ranks together.
    """

    name: str
    layers: Layers
    query_heads: int
    dtype: str | None
    max_positions: int | None
    hidden_size: int
    mlp_numbers: int | None
    vocab_size: int | None
    parameters: int | None
    weights_bytes: int | None
    source: str

    def number_bytes(self) -> int:
        """Bytes of one number in the model's own type. Raises GeometryError if the type is not known."""
        if self.dtype not in DTYPE_BYTES:
            known = "torch_dtype is missing" if self.dtype is None else f"torch_dtype {self.dtype!r} is not known"
            raise GeometryError(f"{self.source}: {known}; accepted: --kv-dtype bf16, fp16, fp32, fp8 or int8")
        return DTYPE_BYTES[self.dtype]


def read_model(path: Path) -> Model:
    """The model of a config.json or of a folder that holds one, weights sized by the checkpoint beside it.

    Raises GeometryError naming the field that is missing or not understood.
    """
    folder = path if path.is_dir() else path.parent
    fields = read_config_fields(path)
    name = str(fields.get("_name_or_path") or folder.resolve().name)
    return model_of(fields, name, weights_bytes=_checkpoint_bytes(folder))


def model_of(fields: ConfigFields, name: str, parameters: int | None = None, weights_bytes: int | None = None) -> Model:
    """The model that `fields` describe. Raises GeometryError as `read_model` does."""
    fields = ConfigFields({**CLASS_DEFAULTS.get(fields.model_type, {}), **fields.fields}, fields.source)
    dtype = fields.get("torch_dtype", "dtype")
    return Model(
        name=name,
        layers=_layers(fields),
        query_heads=fields.whole(*HEADS),
        dtype=None if dtype is None else str(dtype).removeprefix("torch."),
        max_positions=fields.optional_whole("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
        hidden_size=fields.whole("hidden_size", "n_embd", "d_model"),
        mlp_numbers=_mlp_numbers(fields),
        vocab_size=fields.optional_whole("vocab_size", "padded_vocab_size"),
        parameters=parameters,
        weights_bytes=weights_bytes,
        source=fields.source,
    )


def _layers(fields: ConfigFields) -> Layers:
    return tuple(_layer(fields, index, keeps) for index, keeps in enumerate(layer_pattern(fields)))


def _layer(fields: ConfigFields, index: int, keeps: Keeps) -> LayerCache | None:
    if keeps is Keeps.NOTHING:
        return None
    window = None
    if keeps is Keeps.WINDOW:
        window = window_of(fields) or fields.whole("sliding_window")
    elif keeps is Keeps.CHUNK:
        window = fields.whole("attention_chunk_size")
    if latent := fields.optional_whole("kv_lora_rank"):
        return LayerCache(1, latent + fields.whole("qk_rope_head_dim"), window)
    head_dim = _head_dim(fields, keeps)
    value_dim = fields.optional_whole("v_head_dim") or head_dim
    return LayerCache(_kv_heads(fields, index, keeps), head_dim + value_dim, window)


def _head_dim(fields: ConfigFields, keeps: Keeps) -> int:
    if keeps is Keeps.ALL and fields.get("global_head_dim"):  # Gemma 4: full layers have wider heads
        return fields.whole("global_head_dim")
    explicit = fields.optional_whole(*HEAD_DIM)
    if explicit is not None:
        return explicit
    hidden, heads = fields.whole("hidden_size", "n_embd", "d_model"), fields.whole(*HEADS)
    if hidden % heads:
        raise GeometryError(f"{fields.source}: head_dim is missing, and {hidden} does not divide by {heads} heads")
    return hidden // heads


def _kv_heads(fields: ConfigFields, index: int, keeps: Keeps) -> int:
    if block := fields.block_attention(index):  # searched architectures: a group size for each layer
        query_heads, group = fields.whole(*HEADS), block.whole("n_heads_in_group")
        if query_heads % group:
            raise block.wrong("n_heads_in_group", group, f"a divisor of the {query_heads} heads")
        return query_heads // group
    if keeps is Keeps.ALL and fields.get("attention_k_eq_v") and fields.get("num_global_key_value_heads"):  # Gemma 4
        return fields.whole("num_global_key_value_heads")
    if fields.get("multi_query") and not fields.get("new_decoder_architecture"):  # Falcon 7B, StarCoder
        return 1
    heads = fields.optional_whole(*KV_HEADS)
    if heads is None and (nested := fields.nested("attn_config")):  # DBRX, MPT
        heads = nested.optional_whole("kv_n_heads")
    if heads is None and fields.model_type in ONE_KV_HEAD_EACH:
        heads = fields.whole(*HEADS)
    if heads is None:
        raise fields.missing("num_key_value_heads")
    return heads


def _mlp_numbers(fields: ConfigFields) -> int | None:
    dense = fields.optional_whole("intermediate_size", "ffn_dim", "n_inner")
    visited = fields.optional_whole("num_experts_per_tok", "experts_per_token")
    if visited is None:
        return None if dense is None else 3 * dense
    expert = fields.optional_whole("moe_intermediate_size") or dense
    if expert is None:
        return None
    return max(3 * (dense or 0), visited * (3 * expert + fields.whole("hidden_size")))


def _checkpoint_bytes(folder: Path) -> int | None:
    """Bytes of the *.safetensors files in a folder; None if there are none."""
    sizes = [file.stat().st_size for file in sorted(folder.glob("*.safetensors"))]
    return sum(sizes) or None
