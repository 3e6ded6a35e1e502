"""The engine's half of gpu_check: output tokens per second of a batch of requests on the device, on each backend.

Random weights of the note's model: speed does not depend on their values. Where the engine is not part of the checkout,
or a backend cannot run, the row says why, and holds no number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of one size, all there from the start, each continued to its last token."""

    model: str = "random:qwen2.5-0.5b"
    num_requests: int = 64
    prompt_tokens: int = 512
    output_tokens: int = 128

    @property
    def num_blocks(self) -> int:
        """Of 16 tokens: room for every request at its longest, and a null block."""
        return self.num_requests * -(-(self.prompt_tokens + self.output_tokens) // 16) + 1


@dataclass(frozen=True, slots=True)
class Backend:
    """The engine's options that differ from run to run."""

    name: str
    cache: str = "paged"


BACKENDS = (Backend("triton"), Backend("triton", "reservation"), Backend("reference"))


def throughput(device: str, capability: int, workload: Workload, deadline_s: float) -> Iterator[Row]:
    """One row for each of BACKENDS: tokens per second of the second of two equal runs, or why there is none."""
    try:
        from pagesim.engine import Engine, EngineConfig, SamplingParams
    except ImportError as error:
        yield {"skipped": f"the engine cannot be imported: {error}"}
        return
    prompts = [
        [(7 * request + place) % 1000 + 1 for place in range(workload.prompt_tokens)]
        for request in range(workload.num_requests)
    ]
    sampling = SamplingParams(temperature=0.0, max_tokens=workload.output_tokens, ignore_eos=True)
    for backend in BACKENDS:
        config = {
            "model": workload.model, "device": device, "dtype": "bfloat16" if capability >= 80 else "float16",
            "backend": backend.name, "cache": backend.cache, "block_size": 16, "num_blocks": workload.num_blocks,
            "max_model_len": workload.prompt_tokens + workload.output_tokens,
        }  # fmt: skip
        if time.monotonic() > deadline_s:
            yield {"config": config, "not_run": "out of time"}
            continue
        try:
            yield {"config": config} | _measure(Engine(EngineConfig(**config)), prompts, sampling)
        except Exception as error:
            yield {"config": config, "failed": f"{type(error).__name__}: {error}"}


def _measure(engine: Any, prompts: list[list[int]], sampling: Any) -> Row:
    """The first run compiles and warms up; the second is timed, from the first request given to the last answer."""
    for _ in range(2):
        begin = time.perf_counter()
        outputs = engine.generate(prompts, sampling)
        seconds = time.perf_counter() - begin
    num_tokens = sum(len(output.token_ids) for output in outputs)
    expected = len(prompts) * sampling.max_tokens
    if num_tokens != expected:
        return {"failed": f"{num_tokens} output tokens; expected {expected}"}
    return {"output_tokens": num_tokens, "seconds": seconds, "output_tokens_per_s": num_tokens / seconds}
