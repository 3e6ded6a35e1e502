"""Where a step of the engine spends its time on a CPU: linear layers, attention, batch, sampling, and what is between.

    python benchmarks/engine_parts.py [--models tiny qwen2.5-0.5b] [--repeats 5] [--threads 1]

The load of `engine_peers.py`: 16 requests of 64 random tokens, each continued greedily by 64. The first step computes
the prompts, the others decode. Parts are timed inside one run, in seconds of the processor, which on one thread hardly
depend on what else the machine does; shown are medians of steps, in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch

from pagesim.engine import Engine, EngineConfig, SamplingParams, runner
from pagesim.engine.models.presets import PRESETS
from pagesim.engine.models.weights import Linear

NUM_REQUESTS, PROMPT, OUTPUT = 16, 64, 64
PARTS = ("schedule", "batch", "linear layers", "cache write", "attention", "sampling", "between")


class Clock:
    """Seconds of the processor by part, of one step."""

    def __init__(self) -> None:
        self.parts: defaultdict[str, float] = defaultdict(float)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                self.parts[part] += time.process_time() - begin

        return run

    def step(self, engine: Engine) -> dict[str, float]:
        self.parts.clear()
        begin = time.process_time()
        engine.step()
        whole = time.process_time() - begin
        return dict(self.parts) | {"between": whole - sum(self.parts.values()), "whole": whole}


def timed_engine(name: str, clock: Clock) -> Engine:
    engine = Engine(EngineConfig(f"random:{name}", max_model_len=2 * (PROMPT + OUTPUT), kv_bytes=2**28))
    backend = engine.backend
    engine.runner.decoder.backend = replace(
        backend,
        write=clock.timed("cache write", backend.write),
        decode=clock.timed("attention", backend.decode),
        prefill=clock.timed("attention", backend.prefill),
    )
    engine.scheduler.schedule = clock.timed("schedule", engine.scheduler.schedule)
    return engine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=[*PRESETS], default=["tiny", "qwen2.5-0.5b"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = Clock()
    Linear.__call__ = clock.timed("linear layers", Linear.__call__)  # type: ignore[method-assign]
    runner.make_batch = clock.timed("batch", runner.make_batch)
    runner.sample = clock.timed("sampling", runner.sample)
    for name in options.models:
        show(name, *steps(timed_engine(name, clock), clock, options.repeats))


def steps(engine: Engine, clock: Clock, repeats: int) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Prefills and decodes, after one run that does not count."""
    draw, vocab = random.Random(0), engine.model.config.vocab_size
    prompts = [[draw.randrange(vocab) for _ in range(PROMPT)] for _ in range(NUM_REQUESTS)]
    sampling = SamplingParams(temperature=0, max_tokens=OUTPUT, ignore_eos=True)
    engine.generate(prompts, sampling)
    prefills, decodes = [], []
    for _ in range(repeats):
        for prompt in prompts:
            engine.add_request(prompt, sampling)
        prefills.append(clock.step(engine))
        while engine.has_work:
            decodes.append(clock.step(engine))
    return prefills, decodes


def show(name: str, prefills: list[dict[str, float]], decodes: list[dict[str, float]]) -> None:
    print(f"\n{name:24}{'prefill':>10}{'decode':>10}")
    for part in (*PARTS, "whole"):
        times = [1e3 * median(step[part] for step in kind) for kind in (prefills, decodes)]
        print(f"{part:24}{times[0]:>10.2f}{times[1]:>10.3f}")


if __name__ == "__main__":
    main()
