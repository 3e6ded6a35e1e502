"""A model on disk: config.json and safetensors in a directory, or in the cache of the Hugging Face hub.

Nothing is ever unpickled, and no code that comes with a model is run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from pagesim.engine.errors import ModelError
from pagesim.engine.models.model_config import ModelConfig
from pagesim.engine.models.weights import Weights, make_weights

WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]  # weights and tokenizer, of a hub repository
IGNORED_SUFFIX = "rotary_emb.inv_freq"  # old Llama checkpoints store the frequencies, which follow from the config


def find_model(model: str) -> Path:
    """The directory of `model`: itself, or the snapshot of a hub id. Raises ModelError if there is neither."""
    path = Path(model)
    if path.is_dir():
        return path
    if path.exists() or model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise ModelError(
            f"model {model}: no such directory; accepted: a directory with config.json and safetensors, a hub id such "
            "as Qwen/Qwen2.5-0.5B, random:tiny, random:qwen2.5-0.5b, or random: and a config.json"
        )
    return _download(model)


def _download(model: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(model, allow_patterns=WANTED))
    except RepositoryNotFoundError:
        raise ModelError(f"model {model}: the hub knows no such model, or only for those logged in") from None
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"model {model}: not a directory here, and the hub could not be read ({reason}); accepted offline: a "
            "directory, or random:tiny"
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ModelError that names the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; a model directory has config.json and safetensors") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path}: holds no JSON object")
    return value


def load_weights(config: ModelConfig, directory: Path, like: torch.Tensor, *, pack: bool) -> Weights:
    """Weights out of the safetensors of `directory`, converted to the dtype of `like`; `pack`: as in `make_weights`.

    Raises ModelError on a tensor that is missing, of another shape, or not of this architecture.
    """
    homes = _tensors(directory)

    def fill(name: str, tensor: torch.Tensor) -> None:
        if name not in homes:
            raise ModelError(f"{directory}: tensor {name} is missing")
        path, file = homes.pop(name)
        found = file.get_tensor(name)
        if found.shape != tensor.shape:
            raise ModelError(f"{path}: tensor {name} has shape {list(found.shape)}; accepted: {list(tensor.shape)}")
        tensor.copy_(found)

    weights = make_weights(config, like, fill, pack=pack)
    for name, (path, _) in homes.items():
        if not (name.endswith(IGNORED_SUFFIX) or (config.tie_embeddings and name == "lm_head.weight")):
            raise ModelError(f"{path}: tensor {name} is not part of this architecture")
    return weights


def _tensors(directory: Path) -> dict[str, tuple[Path, Any]]:
    """The file of each tensor, by its name, and that file opened: nothing is read yet."""
    from safetensors import SafetensorError, safe_open

    homes: dict[str, tuple[Path, Any]] = {}
    for path in _files(directory):
        try:
            file: Any = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path}: not readable as safetensors ({error})") from None
        for name in file.keys():  # noqa: SIM118  it is no mapping
            if name in homes:
                raise ModelError(f"{path}: tensor {name} is in {homes[name][0].name} too; accepted: each once")
            homes[name] = path, file
    return homes


def _files(directory: Path) -> list[Path]:
    """The shards that the index names, or all safetensors of the directory."""
    index = directory / "model.safetensors.index.json"
    if index.exists():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not names:
            raise ModelError(f"{index}: has no weight_map")
        return [directory / Path(name).name for name in sorted(set(map(str, names.values())))]
    found = sorted(directory.glob("*.safetensors"))
    if not found:
        raise ModelError(f"{directory}: has no safetensors; accepted: model.safetensors, or shards with their index")
    return found
