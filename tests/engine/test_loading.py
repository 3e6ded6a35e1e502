"""Models from disk: shards, dtypes, what is refused, and that the refusal names the thing."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")
pytest.importorskip("transformers", reason="needs pagesim[engine]")

import shutil
from pathlib import Path
from typing import Any

from model_cases import FAMILIES, Reference, check_against, engine_of, prompts, random_shape, write_model
from safetensors.torch import load_file, save_file

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.errors import ModelError
from pagesim.engine.models.model import load_model
from pagesim.engine.models.model_config import read_config
from pagesim.engine.models.presets import PRESETS

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return write_model(tmp_path_factory.mktemp("model"), "llama", random_shape("llama", 7), seed=7)


@pytest.fixture
def copy(reference: Reference, tmp_path: Path) -> Path:
    """A model that may be broken."""
    return Path(shutil.copytree(reference.path, tmp_path / "copy"))


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def load(folder: Path | str) -> None:
    load_model(str(folder), "auto", CPU, 0)


def test_shards_with_an_index(tmp_path: Path) -> None:
    reference = write_model(tmp_path, "qwen3", random_shape("qwen3", 3), seed=3, max_shard_size="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    check_against(reference, engine_of(tmp_path), prompts(1, 3, 20), max_tokens=5)
    sorted(tmp_path.glob("*.safetensors"))[1].unlink()
    with pytest.raises(ModelError, match="model-00002-of"):
        load(tmp_path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_stays_near(dtype: str, reference: Reference) -> None:
    """Greedy tokens may differ; where the first one is the same, nothing is grossly wrong."""
    engine = engine_of(reference.path, dtype=dtype)
    batch = prompts(2, 12, 30)
    outputs = engine.generate(batch, SamplingParams(temperature=0, max_tokens=1, ignore_eos=True))
    for prompt, output in zip(batch, outputs, strict=True):
        logits = reference.logits(prompt)[-1]
        assert logits[output.token_ids[0]] >= logits.max() - 0.05 * logits.abs().max()


@pytest.mark.parametrize("family", FAMILIES)
def test_any_config_builds_seeded_random_weights(family: str, tmp_path: Path) -> None:
    shape = random_shape(family, 1) | {"architectures": [f"{family.capitalize()}ForCausalLM"]}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(shape))
    outputs = []
    for name in (f"random:{path}", f"random:{tmp_path}", str(path)):
        engine = Engine(EngineConfig(name, num_blocks=40, max_model_len=64))
        outputs.append(engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=8))[0].token_ids)
    assert outputs[0] == outputs[1] == outputs[2]


def test_presets_have_the_sizes_they_claim() -> None:
    big = read_config(PRESETS["qwen2.5-0.5b"], "big")
    assert (big.num_layers, big.kv_size, big.dtype, big.tie_embeddings) == (24, 128, "bfloat16", True)
    tiny = read_config(PRESETS["tiny"], "tiny")
    assert (tiny.num_layers, tiny.hidden_size, tiny.vocab_size, tiny.head_dim) == (2, 128, 1024, 64)


def test_the_older_spelling_of_a_config() -> None:
    """Before transformers 5: rope_theta and rope_scaling, torch_dtype."""
    old = PRESETS["qwen2.5-0.5b"] | {"rope_scaling": {"type": "linear", "factor": 4.0}, "torch_dtype": "float16"}
    del old["dtype"]
    config = read_config(old, "old")
    assert (config.rotary.theta, config.rotary.kind, config.rotary.factor) == (1e6, "linear", 4.0)
    assert config.dtype == "float16"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM; accepted: Qwen2ForCausalLM, Qwen3"),
        ({"hidden_act": "gelu"}, "hidden_act is gelu; accepted: silu"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "scaling is yarn; accepted: default, linear"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"vocab_size": "many"}, "vocab_size is many"),
        ({"num_key_value_heads": 5}, "accepted: a multiple of num_key_value_heads, 5"),
        ({"dtype": "float64"}, "dtype is float64; accepted: float32, bfloat16"),
        ({"hidden_size": 192}, "has shape .*; accepted: "),
        ({"num_hidden_layers": 40}, r"tensor model\.layers\.\S+ is missing"),
        ({"num_hidden_layers": 1}, "is not part of this architecture"),
    ],
)
def test_configs_that_are_refused(changes: dict[str, Any], words: str, copy: Path) -> None:
    change_config(copy, **changes)
    with pytest.raises(ModelError, match=words) as caught:
        load(copy)
    assert "\n" not in str(caught.value)


def test_files_that_are_refused(copy: Path) -> None:
    weights = copy / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="not readable as safetensors"):
        load(copy)
    weights.rename(copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match="has no safetensors"):
        load(copy)
    (copy / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not readable as JSON"):
        load(copy)
    (copy / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json: no such file"):
        load(copy)


def test_a_tensor_too_many(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    save_file(tensors | {"model.extra.weight": torch.zeros(3)}, copy / "model.safetensors")
    with pytest.raises(ModelError, match=r"model\.extra\.weight is not part"):
        load(copy)


def test_a_hub_id_without_a_network_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="some-owner/no-such-model: not a directory here, and the hub") as caught:
        load("some-owner/no-such-model")
    assert "\n" not in str(caught.value)
