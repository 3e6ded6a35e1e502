"""The built-in models and cards: every entry reads, known figures hold, and names are forgiving."""

from __future__ import annotations

import pytest

from pagesim.sim.catalog.devices import device_names, find_device
from pagesim.sim.catalog.models import find_model, model_names
from pagesim.sim.errors import GeometryError
from pagesim.sim.geometry import cache_geometry

BYTES_PER_TOKEN = {  # in the model's own type, one rank, no window full
    "qwen2.5-0.5b": 12_288, "qwen2.5-7b": 57_344, "qwen2.5-32b": 262_144, "qwen2.5-72b": 327_680,
    "qwen3-0.6b": 114_688, "qwen3-8b": 147_456, "qwen3-14b": 163_840, "qwen3-30b-a3b": 98_304,
    "qwen3-235b-a22b": 192_512, "qwen3-next-80b-a3b": 24_576, "llama-2-7b": 524_288, "llama-3.1-8b": 131_072,
    "llama-3.1-70b": 327_680, "llama-3.1-405b": 516_096, "llama-3.2-1b": 32_768, "llama-4-scout": 196_608,
    "mistral-7b": 131_072, "mistral-7b-v0.1": 131_072, "mixtral-8x7b": 131_072, "gemma-2-9b": 344_064,
    "gemma-3-27b": 507_904, "phi-3-mini-4k": 393_216, "phi-4": 204_800, "opt-13b": 819_200, "deepseek-v2-lite": 31_104,
    "deepseek-v3": 70_272, "gpt-oss-20b": 49_152, "gpt-oss-120b": 73_728,
}  # fmt: skip


def test_every_built_in_model_has_its_bytes_per_token() -> None:
    found = {name: find_model(name) for name in model_names()}
    sizes = {name: cache_geometry(model.layers, model.number_bytes()).bytes_per_token for name, model in found.items()}
    assert sizes == BYTES_PER_TOKEN
    for model in found.values():
        assert model.parameters is not None
        assert model.max_positions is not None
        assert None not in (model.vocab_size, model.mlp_numbers)


def test_the_papers_slot_of_opt_13b_is_about_0_8_mb() -> None:
    # SOSP 2023: 12 GB of cache = 15.7 K slots on OPT-13B.
    assert 12 * 2**30 // BYTES_PER_TOKEN["opt-13b"] == 15_728


def test_windows_of_the_built_in_hybrids() -> None:
    for name, windowed, window in (
        ("gemma-3-27b", 52, 1024), ("gemma-2-9b", 21, 4096), ("gpt-oss-20b", 12, 128), ("llama-4-scout", 36, 8192),
        ("mistral-7b-v0.1", 32, 4096), ("mistral-7b", 0, None), ("qwen2.5-7b", 0, None),
    ):  # fmt: skip
        windows = [layer.window_tokens for layer in find_model(name).layers if layer is not None]
        assert [w for w in windows if w is not None] == [window] * windowed
    assert sum(layer is not None for layer in find_model("qwen3-next-80b-a3b").layers) == 12


def test_weights_of_the_notes_model() -> None:
    parameters = find_model("qwen2.5-0.5b").parameters
    assert parameters is not None
    assert parameters * 2 // 2**20 == 942


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
        ("QWEN2.5_0.5b", "qwen2.5-0.5b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Llama-3.1-405B", "llama-3.1-405b"),
        ("DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
    ],
)
def test_model_names_are_forgiving(spelling: str, name: str) -> None:
    assert find_model(spelling).name == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("Tesla T4", "t4"), ("NVIDIA A100-SXM4-80GB", "a100-80"), ("GeForce RTX 4090", "rtx-4090"), ("H100", "h100-80")],
)
def test_device_names_are_forgiving(spelling: str, name: str) -> None:
    assert find_device(spelling).name == name


def test_unknown_names_list_near_matches_and_a_way_out() -> None:
    with pytest.raises(GeometryError, match=r"unknown model 'qwen2.5-9b'; near matches: .*qwen2.5-7b.*config\.json"):
        find_model("qwen2.5-9b")
    with pytest.raises(GeometryError, match=r"unknown device 'h2000'; near matches: h200.*--kv-bytes"):
        find_device("h2000")


def test_the_t4_has_the_memory_that_the_note_implies() -> None:
    assert find_device("t4").memory_bytes == 14_912 * 2**20


def test_every_device_says_where_its_figures_come_from() -> None:
    for device in map(find_device, device_names()):
        assert device.memory_kind in ("measured", "reported", "datasheet")
        assert device.speed_kind in ("measured", "datasheet")
        assert device.memory_source
        assert device.speed_source
        assert 10 * 2**30 < device.memory_bytes < 300 * 2**30
        assert 2e11 < device.bandwidth_bytes_per_s < 1e13
        assert 5e13 < device.fp16_tensor_flops < 3e15
