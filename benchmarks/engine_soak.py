"""Two long runs of the engine on random:tiny: the note's starved pool, and many small requests.

    python benchmarks/engine_soak.py [starved] [leak]

starved: 200 requests of 9 + 1,015 tokens in 4,832 blocks of 16, budget 8,192, as in the note (184 preemptions in 1,908
steps), and again in a pool that is never short: every token must be the same. leak: 10,000 requests of up to 12 + 8
tokens, prefix caching on; resident memory after the first tenth and at the end. About two minutes of CPU each.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import torch

from pagesim.engine import Engine, EngineConfig, SamplingParams

NUM_REQUESTS, PROMPT, OUTPUT = 200, 9, 1015
STARVED_BLOCKS, AMPLE_BLOCKS = 4832, 13_000
MAX_GROWTH = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="starved, leak; both unless given")
    parts = parser.parse_args().parts or ["starved", "leak"]
    torch.set_num_threads(1)  # tensors too small to share out
    right = True
    if "starved" in parts:
        right &= starved()
    if "leak" in parts:
        right &= leak()
    sys.exit(0 if right else 1)


def starved() -> bool:
    short, ample = answers(STARVED_BLOCKS), answers(AMPLE_BLOCKS)
    different = sum(one != other for one, other in zip(short, ample, strict=True))
    print(f"answers that differ between the two: {different} of {NUM_REQUESTS}")
    return different == 0


def answers(num_blocks: int) -> list[tuple[int, ...]]:
    config = EngineConfig("random:tiny", num_blocks=num_blocks, max_model_len=2048, token_budget=8192)
    engine, draw = Engine(config), random.Random(0)
    prompts = [[draw.randrange(1024) for _ in range(PROMPT)] for _ in range(NUM_REQUESTS)]
    begin = time.process_time()
    outputs = engine.generate(prompts, SamplingParams(temperature=0, max_tokens=OUTPUT))
    totals = engine.scheduler.totals
    print(
        f"{num_blocks} blocks: {totals.preemptions} preemptions, {totals.steps} steps, "
        f"{totals.recomputed_tokens} tokens computed again, {time.process_time() - begin:.0f} s of CPU"
    )
    return [output.token_ids for output in outputs]


def leak(num_requests: int = 10_000, at_once: int = 200) -> bool:
    engine = Engine(EngineConfig("random:tiny", num_blocks=800, max_model_len=64, prefix_caching=True))
    draw = random.Random(0)
    early = 0
    for served in range(0, num_requests, at_once):
        prompts = [[draw.randrange(4) for _ in range(draw.randint(1, 12))] for _ in range(at_once)]
        engine.generate(prompts, SamplingParams(temperature=1, max_tokens=draw.randint(1, 8)))
        if served == num_requests // 10:
            early = resident_bytes()
    engine.cache.check()
    growth = resident_bytes() / early - 1
    print(
        f"{num_requests} requests: {engine.cache.blocks_used} blocks still owned, resident memory {early / 2**20:.0f} "
        f"MiB after a tenth, {growth:+.2%} at the end (allowed: {MAX_GROWTH:.0%})"
    )
    return growth <= MAX_GROWTH and engine.cache.blocks_used == 0


def resident_bytes() -> int:
    """Linux: VmRSS."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
