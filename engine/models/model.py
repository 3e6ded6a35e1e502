"""From a model's name to a decoder's weights and a tokenizer: a directory, a hub id, or random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pagesim.engine.errors import ModelError
from pagesim.engine.models.checkpoint import find_model, load_weights, read_json
from pagesim.engine.models.model_config import DTYPES, ModelConfig, eos_token_ids, read_config
from pagesim.engine.models.presets import PRESETS, RANDOM
from pagesim.engine.models.tokenizer import Tokenizer, tokenizer_of
from pagesim.engine.models.weights import Weights, fill_randomly


@dataclass(frozen=True, slots=True)
class Model:
    """`eos_token_ids`: what ends a text, by the generation config where there is one."""

    name: str
    config: ModelConfig
    weights: Weights
    tokenizer: Tokenizer
    eos_token_ids: frozenset[int]

    def packed(self) -> Model:
        """Ready to run, no more to be read; this one's weights are given up on the way (`Weights.packed`)."""
        with torch.inference_mode():
            return replace(self, weights=self.weights.packed())


def load_model(name: str, dtype: str, device: torch.device, seed: int) -> Model:
    """Load `name`: a directory, a hub id, `random:` and a preset or a config.json, or a config.json alone.

    `dtype`: "auto", as the config says, or one of DTYPES. `seed`: of random weights. Raises ModelError.
    """
    with torch.inference_mode():
        if name.startswith(RANDOM) or name.endswith(".json"):
            return _random_model(name, dtype, device, seed)
        directory = find_model(name)
        config = read_config(read_json(directory / "config.json"), name)
        weights = Weights.empty(config, _dtype(dtype, config), device)
        load_weights(weights, directory)
        generation = directory / "generation_config.json"
        ends = config.eos_token_ids | eos_token_ids(read_json(generation) if generation.exists() else {})
        return Model(name, config, weights, tokenizer_of(directory, config.vocab_size), ends)


def _random_model(name: str, dtype: str, device: torch.device, seed: int) -> Model:
    config = read_config(_random_config(name.removeprefix(RANDOM)), name)
    weights = Weights.empty(config, _dtype(dtype, config), device)
    fill_randomly(weights, seed)
    return Model(name, config, weights, tokenizer_of(None, config.vocab_size), frozenset())


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
