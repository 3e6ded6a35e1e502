"""The trials, each small, each the real thing: run in a child, `python -m pagesim.validate.doctor.trials`.

A trial returns what it found in a few words, or raises. The question is {"import": library} or {"trial": name}.
"""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagesim.validate.child import Advance, answer

if TYPE_CHECKING:
    from pagesim.engine.config import Backend
    from pagesim.sim.result import RunResult

PROMPTS = [[5, 6, 7, 8], [1, 2]]
REQUESTS, NUM_TOKENS = 60, 4
SERVER_TIMEOUT_S = 60.0
CAPABILITY = 75  # of the T4


def _run() -> RunResult:
    from pagesim.sim.config import RunConfig, WorkloadConfig
    from pagesim.sim.result import RunResult
    from pagesim.sim.run import run

    config = RunConfig(load="high", workload=WorkloadConfig(num_requests=REQUESTS), num_runs=1)
    return RunResult.of(config, run(config, check=True))


def simulator() -> str:
    """A small run of the main experiment, its account checked at every event."""
    result = _run()
    return f"{REQUESTS} requests through {len(result.allocators)} allocators, every slot accounted for"


def report() -> str:
    """The page of such a run."""
    from pagesim.sim.gallery import panels
    from pagesim.sim.report import write_report
    from pagesim.sim.run_table import shown

    result = _run()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write_report(result, shown(result), panels(result), page, "pagesim doctor")
        return f"a page of {page.stat().st_size // 2**10:,} KiB"


def traces() -> str:
    """A drawn trace, written and read in both of our own formats."""
    from pagesim.sim.formats import read_trace
    from pagesim.sim.own_format import write_trace
    from pagesim.sim.reading import ReadOptions

    trace = _trace()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.jsonl.gz", "trace.parquet"):
            write_trace(trace, Path(folder) / name)
            again, _ = read_trace(Path(folder) / name, ReadOptions())
            assert again.sha256() == trace.sha256(), f"{name} does not hold what was written"
    return f"{len(trace)} requests written and read, JSON Lines and Parquet"


def schedulers() -> str:
    """A small replay of the engine's scheduler beside the simulator's."""
    from pagesim.sim.serving.config import ServingConfig
    from pagesim.sim.serving.steptime import ConstantStep
    from pagesim.validate.replay.experiment import Experiment
    from pagesim.validate.replay.logical import replay_logically

    rules = ServingConfig(num_blocks=65, max_model_len=1024)
    found = replay_logically(Experiment(_trace(), rules, ConstantStep(0.01)))
    assert found.agrees, f"simulator and engine differ: {found.findings}"
    return f"simulator and engine agree in {found.steps_that_agree} steps"


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


TRIALS: dict[str, Callable[[], str]] = {
    trial.__name__: trial
    for trial in (
        simulator, report, traces, schedulers, engine, checkpoint, interpreter, compiler, card, card_kernels, server,
    )
}  # fmt: skip


def _trace() -> Any:
    from pagesim.sim.config import RunConfig, WorkloadConfig
    from pagesim.sim.source import source

    config = RunConfig(load="high", workload=WorkloadConfig(num_requests=REQUESTS), max_model_len=1024, num_runs=1)
    (trace,) = source(config, None).traces()
    return trace


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

    from pagesim.engine.model import load_model
    from pagesim.engine.presets import PRESETS

    views = load_model("random:tiny", "auto", torch.device("cpu"), 0).weights.named_views()
    save_file({name: view.clone().contiguous() for name, view in views.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(PRESETS["tiny"]))


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    make: Any = PreTrainedTokenizerFast
    make(tokenizer_object=words, unk_token="?").save_pretrained(folder)


def _text_of(folder: str) -> str:
    from pagesim.engine.tokenizer import tokenizer_of

    tokenizer = tokenizer_of(Path(folder), 1024)
    return tokenizer.decode(tokenizer.encode("a b"))


def _imported(name: str) -> dict[str, Any]:
    """Version, and of torch what it says of its cards."""
    module = importlib.import_module(name)
    found: dict[str, Any] = {"version": _version(name, module)}
    if name == "torch":
        found |= {"cuda": module.version.cuda, "cards": _cards(module)}
    return found


def _version(name: str, module: Any) -> str | None:
    own = getattr(module, "__version__", None)
    try:
        return str(own or metadata.version(name.replace("_", "-")))
    except metadata.PackageNotFoundError:
        return None


def _cards(torch: Any) -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    each = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [
        {"name": facts.name, "memory_bytes": facts.total_memory, "capability": f"{facts.major}.{facts.minor}"}
        for facts in each
    ]


def _work(question: dict[str, str], advance: Advance) -> Any:
    return _imported(question["import"]) if "import" in question else TRIALS[question["trial"]]()


if __name__ == "__main__":
    answer(_work)
