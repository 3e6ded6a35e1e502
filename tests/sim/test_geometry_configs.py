"""Every way in which a config.json says what its layers keep; and facts that are missing are named, not guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.sim.catalog.configfields import config_fields
from pagesim.sim.catalog.layerpattern import Keeps, layer_pattern
from pagesim.sim.catalog.modelconfig import Model, model_of, read_model
from pagesim.sim.errors import GeometryError
from pagesim.sim.geometry import LayerCache, cache_geometry

BASE: dict[str, Any] = {
    "model_type": "other", "num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 2, "torch_dtype": "bfloat16",
}  # fmt: skip
A, W, C, N = Keeps.ALL, Keeps.WINDOW, Keeps.CHUNK, Keeps.NOTHING


def model(**changes: Any) -> Model:
    """The model of BASE with `changes`; a field changed to ... is taken out."""
    config = {name: value for name, value in {**BASE, **changes}.items() if value is not ...}
    return model_of(config_fields(config, "config.json"), "made up")


def pattern(**changes: Any) -> tuple[Keeps, ...]:
    config = {name: value for name, value in {**BASE, **changes}.items() if value is not ...}
    return layer_pattern(config_fields(config, "config.json"))


def heads(**changes: Any) -> int:
    layer = model(**changes).layers[0]
    assert layer is not None
    return layer.kv_heads


WAYS = [
    ({}, (A,) * 8),
    ({"layer_types": ["full_attention", "sliding_attention"] * 4, "sliding_window": 128}, (A, W) * 4),
    ({"layer_types": ["linear_attention"] * 3 + ["full_attention"] + ["mamba"] * 3 + ["attention"]}, (N, N, N, A) * 2),
    ({"layers_block_type": ["mamba", "attention", "moe", "mlp"] * 2}, (N, A, N, N) * 2),
    ({"layer_types": ["chunked_attention", "full_attention"] * 4, "attention_chunk_size": 64}, (C, A) * 4),
    ({"hybrid_override_pattern": "M-M*EM-*"}, (N, N, N, A, N, N, N, A)),
    ({"attn_type_list": [0, 1] * 4}, (N, A) * 4),
    ({"linear_attn_config": {"full_attn_layers": [4, 8]}}, (N, N, N, A) * 2),
    ({"attn_layer_indices": [2, 5]}, (N, N, A, N, N, A, N, N)),
    ({"attn_layer_period": 4, "attn_layer_offset": 1}, (N, A, N, N) * 2),
    ({"attn_layer_period": 8, "attn_layer_offset": 0}, (A,) + (N,) * 7),
    ({"model_type": "qwen3_next"}, (N, N, N, A) * 2),
    ({"full_attention_interval": 2}, (N, A) * 4),
    ({"model_type": "llama4_text", "attention_chunk_size": 64, "no_rope_layers": []}, (C, C, C, A) * 2),
    ({"model_type": "llama4_text", "attention_chunk_size": 64, "no_rope_layers": [0, 1] * 4}, (A, C) * 4),
    ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": False, "max_window_layers": 4}, (A,) * 8),
    ({"model_type": "qwen2", "sliding_window": 64, "max_window_layers": 4}, (A,) * 8),
    ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 4}, (A, A, A, A, W, W, W, W)),
    ({"model_type": "gemma2", "sliding_window": 64}, (W, A) * 4),
    ({"model_type": "gemma3_text", "sliding_window": 64}, (W, W, W, W, W, A, W, W)),
    ({"sliding_window": 64, "sliding_window_pattern": 4}, (W, W, W, A) * 2),
    ({"model_type": "gpt_oss", "sliding_window": 128}, (W, A) * 4),
    ({"model_type": "mistral", "sliding_window": 64}, (W,) * 8),
    ({"model_type": "mistral", "sliding_window": None}, (A,) * 8),
    ({"model_type": "mistral"}, (W,) * 8),
    ({"num_kv_shared_layers": 3}, (A,) * 5 + (N,) * 3),
    ({"block_configs": [{"attention": {"no_op": True}}, {"attention": {"n_heads_in_group": 4}}] * 4}, (N, A) * 4),
    ({"model_type": "falcon_h1", "mamba_d_ssm": 64}, (A,) * 8),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), WAYS)
def test_pattern(changes: dict[str, Any], expected: tuple[Keeps, ...]) -> None:
    assert pattern(**changes) == expected


REFUSED = [
    ({"num_hidden_layers": ...}, "num_hidden_layers is missing"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0; accepted: a whole number"),
    ({"num_hidden_layers": "8"}, "num_hidden_layers is '8'"),
    ({"num_attention_heads": ..., "num_key_value_heads": ...}, "num_attention_heads is missing"),
    ({"num_key_value_heads": ...}, "num_key_value_heads is missing"),
    ({"hidden_size": ...}, "hidden_size is missing"),
    ({"hidden_size": 500}, "head_dim is missing, and 500 does not divide by 8"),
    ({"layer_types": ["full_attention"] * 7}, "8 layers, but the list of their kinds has 7"),
    ({"layer_types": "full_attention"}, "layer_types is 'full_attention'; accepted: a list"),
    ({"layer_types": ["spectral"] * 8}, "an entry of layer_types is 'spectral'; accepted: full_attention"),
    ({"layer_types": ["sliding_attention"] * 8}, "sliding_window is missing"),
    ({"layer_types": ["chunked_attention"] * 8}, "attention_chunk_size is missing"),
    ({"hybrid_override_pattern": "M*?*M*M*"}, "an entry of hybrid_override_pattern is '?'"),
    ({"attn_layer_period": 4}, "attn_layer_offset is missing"),
    ({"sliding_window": 64}, "sliding_window is 64 and nothing says which layers have it"),
    ({"sliding_window": 64, "sliding_window_pattern": "LLLG"}, "nothing says which layers"),
    ({"use_sliding_window": True, "sliding_window": 64}, "max_window_layers is missing"),
    ({"mamba_d_state": 16}, "mamba_d_state is set and nothing says which layers are attention"),
    ({"kv_lora_rank": 512}, "qk_rope_head_dim is missing"),
    ({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}, "index_head_dim is set: the sparse"),
    ({"is_encoder_decoder": True}, "is_encoder_decoder is set"),
    ({"num_kv_shared_layers": 8}, "num_kv_shared_layers is 8; accepted: less than the 8 layers"),
    ({"block_configs": [{"attention": {"n_heads_in_group": 3}}] * 8}, "n_heads_in_group is 3; accepted: a divisor"),
    ({"block_configs": [{}] * 8}, "block_configs[0] is {}; accepted"),
    ({"block_configs": [{"attention": {}}] * 8}, "n_heads_in_group is missing"),
    ({"layer_types": [["full_attention"]] * 8}, "an entry of layer_types is ['full_attention']"),
    ({"attn_layer_indices": ["a"]}, "an entry of attn_layer_indices is 'a'"),
    ({"attn_config": {"kv_n_heads": "x"}, "num_key_value_heads": ...}, "kv_n_heads is 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_missing_facts_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GeometryError) as caught:
        model(**changes)
    assert str(caught.value).startswith("config.json: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_grouped_multi_query_and_multi_head_attention() -> None:
    assert heads() == 2
    assert heads(num_key_value_heads=8) == 8
    assert heads(multi_query=True) == 1
    assert heads(multi_query=True, new_decoder_architecture=True, num_kv_heads=2, num_key_value_heads=...) == 2
    assert heads(model_type="llama", num_key_value_heads=...) == 8
    assert heads(num_key_value_heads=..., attn_config={"kv_n_heads": 4}) == 4
    assert heads(block_configs=[{"attention": {"n_heads_in_group": 4}}] * 8) == 2


def test_head_dim_explicit_or_from_the_width() -> None:
    assert model().layers[0] == LayerCache(2, 2 * 64)
    assert model(head_dim=96).layers[0] == LayerCache(2, 2 * 96)
    assert model(head_dim=None).layers[0] == LayerCache(2, 2 * 64)
    assert model(head_dim=96, v_head_dim=32).layers[0] == LayerCache(2, 96 + 32)


def test_latent_attention_is_one_vector_however_many_heads() -> None:
    latent = model(kv_lora_rank=512, qk_rope_head_dim=64, num_key_value_heads=8, v_head_dim=128)
    assert latent.layers == (LayerCache(1, 576),) * 8


def test_window_and_chunk_reach_the_layer() -> None:
    assert model(model_type="mistral").layers[0] == LayerCache(2, 128, 4096)
    chunked = model(model_type="llama4_text", attention_chunk_size=64)
    assert chunked.layers[:4] == (*[LayerCache(2, 128, 64)] * 3, LayerCache(2, 128))


def test_gemma_4_full_layers_have_heads_of_their_own() -> None:
    kinds = {"layer_types": ["sliding_attention", "full_attention"] * 4, "sliding_window": 32}
    wide = {"head_dim": 64, "global_head_dim": 256, "num_global_key_value_heads": 1, "attention_k_eq_v": True}
    assert model(**kinds, **wide).layers[:2] == (LayerCache(2, 128, 32), LayerCache(1, 512))
    assert model(**kinds, **{**wide, "attention_k_eq_v": False}).layers[1] == LayerCache(2, 512)


def test_the_language_model_of_a_multimodal_file_is_found() -> None:
    inner = {name: value for name, value in BASE.items() if name != "torch_dtype"}
    nested = {"model_type": "outer", "torch_dtype": "float16", "hidden_size": 7, "text_config": inner}
    found = model_of(config_fields(nested, "config.json"), "nested")
    assert (found.hidden_size, found.dtype, len(found.layers)) == (512, "float16", 8)


def test_gemma_3_files_that_leave_their_heads_to_the_class() -> None:
    small = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
    found = model_of(config_fields({"text_config": small}, "config.json"), "gemma-3-4b")
    assert found.layers[0] == LayerCache(4, 512, 1024)
    assert found.layers[5] == LayerCache(4, 512)


@pytest.mark.parametrize(("dtype", "number_bytes"), [("float32", 4), ("bfloat16", 2), ("float16", 2), ("int8", 1)])
def test_bytes_of_the_models_own_type(dtype: str, number_bytes: int) -> None:
    assert model(torch_dtype=dtype).number_bytes() == number_bytes
    assert model(torch_dtype=..., dtype=f"torch.{dtype}").number_bytes() == number_bytes


@pytest.mark.parametrize("dtype", [..., "complex64"])
def test_a_type_that_is_not_known_is_refused(dtype: Any) -> None:
    with pytest.raises(GeometryError, match=r"torch_dtype .*accepted: --kv-dtype"):
        model(torch_dtype=dtype).number_bytes()


def test_a_file_or_its_folder_can_be_read_and_weights_are_sized(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BASE), encoding="utf-8")
    for path in (tmp_path, tmp_path / "config.json"):
        found = read_model(path)
        assert found.weights_bytes is None
        assert cache_geometry(found.layers, found.number_bytes()).bytes_per_token == 8 * 2 * 128 * 2
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 1000)
    (tmp_path / "model-2.safetensors").write_bytes(b"x" * 500)
    assert read_model(tmp_path).weights_bytes == 1500


@pytest.mark.parametrize(
    ("text", "message"), [("[1]", "no JSON object"), ("{", "is no JSON"), (None, "cannot be read")]
)
def test_files_that_are_no_config_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "config.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(GeometryError, match=message):
        read_model(file)


ODD = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=3)
ODD |= st.lists(ODD, max_size=8) | st.dictionaries(
    st.sampled_from(["attention", "no_op", "kv_n_heads"]), ODD, max_size=2
)
FIELDS = [
    *BASE, "layer_types", "layers_block_type", "hybrid_override_pattern", "attn_type_list", "block_configs", "head_dim",
    "linear_attn_config", "attn_layer_indices", "attn_layer_period", "attn_layer_offset", "full_attention_interval",
    "attention_chunk_size", "no_rope_layers", "no_rope_layer_interval", "use_sliding_window", "max_window_layers",
    "sliding_window", "sliding_window_pattern", "num_kv_shared_layers", "kv_lora_rank", "qk_rope_head_dim",
    "v_head_dim", "global_head_dim", "attention_k_eq_v", "num_global_key_value_heads", "multi_query", "attn_config",
    "text_config", "num_experts_per_tok", "moe_intermediate_size", "intermediate_size", "vocab_size",
]  # fmt: skip
TYPES = st.sampled_from(["other", "qwen2", "qwen3_next", "llama4_text", "gemma2", "mistral", "llama"])


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4), TYPES)
def test_any_json_gives_a_sound_model_or_a_geometry_error(changes: dict[str, Any], model_type: str) -> None:
    config = {**BASE, "model_type": model_type, **changes}
    try:
        found = model_of(config_fields(config, "config.json"), "odd")
    except GeometryError:
        return  # any other error is a bug
    kept = [layer for layer in found.layers if layer is not None]
    assert len(found.layers) >= 1
    assert all(layer.kv_heads >= 1 and layer.numbers_per_head >= 2 for layer in kept)
    if "num_hidden_layers" not in changes and "text_config" not in changes:
        assert len(found.layers) == BASE["num_hidden_layers"]
