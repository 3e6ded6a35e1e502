"""The trials of the engine, its kernels and its server: a few tokens of a small model, which must be the same ones."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagesim.engine.config import Backend

PROMPTS = [[5, 6, 7, 8], [1, 2]]
NUM_TOKENS = 4
SERVER_TIMEOUT_S = 60.0
CAPABILITY = 75  # of the T4


def engine() -> str:
    """A few tokens of a small model, from a paged cache and from a reserved one."""
    paged, reserved = _generate("cpu", "reference"), _generate("cpu", "reference", cache="reservation")
    assert paged == reserved, f"{paged} from the paged cache, {reserved} from the reserved one"
    return "random:tiny answers alike from a paged and a reserved cache"


def checkpoint() -> str:
    """A small model written as a checkpoint, with its tokenizer, and served from it."""
    with tempfile.TemporaryDirectory() as folder:
        _write_weights(Path(folder))
        _write_tokenizer(Path(folder))
        found, text = _generate("cpu", "reference", model=folder), _text_of(folder)
    assert found == _generate("cpu", "reference"), f"{found} from the checkpoint, other tokens before it was written"
    assert text == "a b", f"the tokenizer gives {text!r} for 'a b'"
    return "a model and its tokenizer, written as a checkpoint and read back"


def interpreter() -> str:
    """The Triton kernels on CPU tensors, beside the reference."""
    ours, theirs = _generate("cpu", "triton"), _generate("cpu", "reference")
    assert ours == theirs, f"{ours} from the kernels, {theirs} from the reference"
    return "the kernels, interpreted, answer as the reference does"


def compiler() -> str:
    """A kernel compiled for a card that need not be there."""
    from pagesim.kernels.addressing import Addressing
    from pagesim.kernels.settings import DecodeShape
    from pagesim.kernels.static_account import decode_variant

    heads, kv_heads, head_dim, block_size, item_bytes = 14, 2, 64, 16, 2  # Qwen2.5-0.5B
    shape = DecodeShape(64, 2048, heads, kv_heads, head_dim, block_size, item_bytes)
    counts = decode_variant(CAPABILITY, shape, "fp16", Addressing.BY_BLOCK, 0).compiled.counts
    assert counts.loop_instructions > 0, "the compiled kernel has no loop"
    return f"decode compiled for capability {CAPABILITY / 10}: {counts.loop_instructions} instructions in its loop"


def card() -> str:
    """The engine on the card, attention in plain torch."""
    return _on_card("reference")


def card_kernels() -> str:
    """The engine on the card with the kernels compiled for it."""
    return _on_card("triton")


def server() -> str:
    """A server of a small model on a free port, asked once and ended."""
    command = [sys.executable, "-P", "-m", "pagesim", "serve", "--model", "random:tiny", "--port", "0"]
    command += ["--kv-bytes", "1MiB", "--max-model-len", "64"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().strip()
        try:
            if not address:
                raise RuntimeError(process.stderr.read().strip() or "the server ended at once")
            body = json.dumps({"model": "random:tiny", "prompt": "a", "max_tokens": NUM_TOKENS, "ignore_eos": True})
            request = urllib.request.Request(
                f"{address}/v1/completions", body.encode(), {"Content-Type": "application/json"}
            )
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it listens on this machine
            with opener.open(request, timeout=SERVER_TIMEOUT_S) as response:
                used = json.load(response)["usage"]["completion_tokens"]
        finally:
            process.send_signal(signal.SIGTERM)
    assert used == NUM_TOKENS, f"{used} tokens came back, {NUM_TOKENS} were asked for"
    return f"a server on 127.0.0.1 answered with {used} tokens"


def _generate(device: str, backend: Backend, model: str = "random:tiny", cache: str = "paged") -> list[tuple[int, ...]]:
    from pagesim.engine import Engine, EngineConfig, SamplingParams

    config = EngineConfig(model, device=device, backend=backend, cache=cache, kv_bytes=2**20, max_model_len=64)
    greedy = SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True)
    outputs = Engine(config, audit=True).generate(PROMPTS, greedy)
    return [output.samples[0].token_ids for output in outputs]


def _on_card(backend: Backend) -> str:
    """The same weights on card and CPU: random ones would be others on each."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no CUDA device")
    with tempfile.TemporaryDirectory() as folder:
        _write_weights(Path(folder))
        found = _generate("cuda", backend, model=folder)
        wanted = _generate("cpu", "reference", model=folder)
    assert found == wanted, f"{found} on the card, {wanted} on the CPU"
    return f"{torch.cuda.get_device_name()} answers as the CPU does"


def _write_weights(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from pagesim.engine.models.model_config import read_config
    from pagesim.engine.models.presets import PRESETS
    from pagesim.engine.models.weights import make_weights, random_fill

    tensors: dict[str, torch.Tensor] = {}
    fill = random_fill(torch.device("cpu"), seed=0)  # as random:tiny is

    def keep(name: str, tensor: torch.Tensor) -> None:
        fill(name, tensor)
        tensors[name] = tensor.clone()

    make_weights(read_config(PRESETS["tiny"], "tiny"), torch.empty(0), keep, pack=False)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(PRESETS["tiny"]))


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    make: Any = PreTrainedTokenizerFast
    make(tokenizer_object=words, unk_token="?").save_pretrained(folder)


def _text_of(folder: str) -> str:
    from pagesim.engine.models.tokenizer import tokenizer_of

    tokenizer = tokenizer_of(Path(folder), 1024)
    return tokenizer.decode(tokenizer.encode("a b"))
