"""Output tokens per second on a CPU: our engine beside vLLM's CPU build and transformers, in one run on one machine.

    python benchmarks/engine_peers.py [--models tiny qwen2.5-0.5b] [--engines ...] [--scratch DIR] [--json]
    python benchmarks/engine_peers.py --plan

16 requests of 64 random tokens come at once, and each is continued greedily by 64. A model's random weights are written
once, as a checkpoint, and every engine loads that. Peers are installed into environments of their own in the scratch
folder (3 GB), which are used again. Each engine is a process with as many threads; all are started and warmed up by one
run first, vLLM's compilation included, and then take turns, so that what else the machine does meets all alike. On a
machine that others use, only the ratios mean anything, and with two threads not even these: each product waits for the
slower one. What is left there is one thread, and the least seconds of the processor.

vllm is compiled, vllm_eager not. generate_batch is transformers' paged attention with continuous batching, generate
its plain batch. An engine that cannot be installed or run is listed with the reason, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

from engine_peers_process import Engine, children, run, start  # noqa: E402
from engine_peers_setup import (  # noqa: E402
    HOMES,
    NUM_REQUESTS,
    OUTPUT,
    PACKAGES,
    PROMPT,
    PeerError,
    environment,
    marker,
    write_job,
)  # fmt: skip

from pagesim.engine.models.presets import PRESETS  # noqa: E402
from pagesim.sim.console import progress  # noqa: E402
from pagesim.sim.jsontext import dumps  # noqa: E402

REST_S = 0.5  # after a run its threads spin for a while, in wait of more


def main() -> int:
    options = parsed()
    if options.plan:
        print("\n".join(plan(options)))
        return 0
    options.scratch.mkdir(parents=True, exist_ok=True)
    pythons = {home: environment(options.scratch / home, home) for home in homes(options)}
    results = []
    for name in options.models:
        results.append(measure(name, pythons, options))
        if not options.json:
            show(results[-1], options)
    if options.json:
        print(dumps({"schema": "pagesim.benchmark.engine_peers/1", "threads": options.threads, "models": results}))
    return 1 if any("failure" in row for result in results for row in result["engines"]) else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=[*PRESETS], default=["tiny", "qwen2.5-0.5b"])
    parser.add_argument("--engines", nargs="+", choices=[*HOMES], default=[*HOMES])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "pagesim-engine-peers")
    parser.add_argument("--plan", action="store_true", help="print what would be done, and do nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    for name in ("threads", "repeats"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}; accepted: 1 or more")
    return options


def homes(options: argparse.Namespace) -> list[str]:
    return [*dict.fromkeys(home for name in options.engines if (home := HOMES[name]) is not None)]


def plan(options: argparse.Namespace) -> Iterator[str]:
    for home in homes(options):
        ready = "is there" if marker(options.scratch / home, home).exists() else "is to be made"
        yield f"environment {options.scratch / home} {ready}: {' '.join(PACKAGES[home])}"
    for name in options.models:
        yield (
            f"{name}: {', '.join(options.engines)}, {options.threads} threads each, once to warm up and then "
            f"{options.repeats} times in turn: {NUM_REQUESTS} requests of {PROMPT} + {OUTPUT} tokens"
        )


def measure(name: str, pythons: dict[str, Path | PeerError], options: argparse.Namespace) -> dict[str, Any]:
    """Every engine under one model's load, in turns."""
    job = write_job(name, options.scratch, options.threads)
    load = [os.getloadavg()[0]]
    engines = [Engine(each) for each in options.engines]
    with progress(name, len(engines) * (1 + options.repeats)) as advance, children(engines):
        for engine in engines:
            home = HOMES[engine.name]
            turn(engine, partial(start, python=pythons[home] if home else Path(sys.executable), job=job))
            advance(1)
        for _ in range(options.repeats):
            for engine in engines:
                turn(engine, run)
                advance(1)
    load.append(os.getloadavg()[0])
    ours = next((engine for engine in engines if engine.name == "pagesim"), None)
    return {"model": name, "load_average": load, "engines": [engine.row(ours) for engine in engines]}


def turn(engine: Engine, act: Callable[[Engine], None]) -> None:
    if engine.failure is None:
        time.sleep(REST_S)
        try:
            act(engine)
        except PeerError as error:
            engine.failure = str(error)


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    load = " and ".join(f"{each:.1f}" for each in result["load_average"])
    print(
        f"\n{result['model']}: {NUM_REQUESTS} x ({PROMPT} + {OUTPUT}) tokens, {options.threads} threads, "
        f"{options.repeats} runs each in turn, load average {load} before and after"
    )
    print(
        f"{'':15}{'tokens/s':>10}{'least':>9}{'most':>9}   pagesim is faster by: median, best, processor   same answers"
    )
    for row in result["engines"]:
        if "failure" in row:
            print(f"{row['engine']:15}{row['failure']}")
            continue
        speed, times = row["tokens_per_s"], row.get("pagesim_times_as_fast")
        told = ""
        if times is not None and row["engine"] != "pagesim":
            ratios = "".join(f"{times[each]:>8.2f}" for each in ("median", "best", "by_cpu"))
            told = f"   {ratios:45}  {row['answers_like_pagesim']} of {NUM_REQUESTS}"
        figures = f"{speed['median']:>10,.0f}{speed['min']:>9,.0f}{speed['max']:>9,.0f}"
        print(f"{row['engine']:15}{figures}{told}   {row['version']}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
