"""From a model's name to a decoder's weights and a tokenizer: a directory, a hub id, or random weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pagesim.engine.errors import ModelError
from pagesim.engine.models.checkpoint import find_model, load_weights, read_json
from pagesim.engine.models.model_config import DTYPES, ModelConfig, eos_token_ids, read_config
from pagesim.engine.models.presets import PRESETS, RANDOM
from pagesim.engine.models.tokenizer import Tokenizer, tokenizer_of
from pagesim.engine.models.weights import Weights, make_weights, random_fill


@dataclass(frozen=True, slots=True)
class Model:
    """`eos_token_ids`: what ends a text, by the generation config where there is one."""

    name: str
    config: ModelConfig
    weights: Weights
    tokenizer: Tokenizer
    eos_token_ids: frozenset[int]


def load_model(name: str, dtype: str, device: torch.device, seed: int, *, pack: bool = False) -> Model:
    """Load `name`: a directory, a hub id, `random:` and a preset or a config.json, or a config.json alone.

    `dtype`: "auto", as the config says, or one of DTYPES. `seed`: of random weights. `pack`: on a CPU, matrices as
    oneDNN reads them, to compute with and no more to be read. Raises ModelError.
    """
    is_random = name.startswith(RANDOM) or name.endswith(".json")
    directory = None if is_random else find_model(name)
    given = _random_config(name.removeprefix(RANDOM)) if directory is None else read_json(directory / "config.json")
    config = read_config(given, name)
    ends: frozenset[int] = frozenset()
    with torch.inference_mode():
        like = torch.empty(0, dtype=_dtype(dtype, config), device=device)
        if directory is None:
            weights = make_weights(config, like, random_fill(device, seed), pack=pack)
        else:
            weights = load_weights(config, directory, like, pack=pack)
            generation = directory / "generation_config.json"
            ends = config.eos_token_ids | eos_token_ids(read_json(generation) if generation.exists() else {})
    return Model(name, config, weights, tokenizer_of(directory, config.vocab_size), ends)


def _random_config(name: str) -> dict[str, Any]:
    """A preset, or a config.json, or the one of a directory."""
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name)
    path = path / "config.json" if path.is_dir() else path
    if not path.exists():
        raise ModelError(f"{RANDOM}{name}: no such preset or file; accepted: {', '.join(PRESETS)}, or a config.json")
    return read_json(path)


def _dtype(name: str, config: ModelConfig) -> torch.dtype:
    name = config.dtype if name == "auto" else name
    if name not in DTYPES:
        raise ModelError(f"dtype is {name}; accepted: auto, {', '.join(DTYPES)}")
    dtype: torch.dtype = getattr(torch, name)
    return dtype
