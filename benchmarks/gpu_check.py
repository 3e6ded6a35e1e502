"""For the day a CUDA card is at hand: are the kernels right on it, and how fast are they? At most ten minutes.

    python benchmarks/gpu_check.py [--minutes 9] [--out benchmarks/results/NAME.json] [--plan]

Correctness on the device, then decode against the copy bandwidth, then the engine's throughput. Needs torch, triton and
numpy; pagesim need not be installed. Exit status: 0 all right, 1 a check failed, 2 no CUDA device. With --plan nothing
is run, and no card is needed: it prints what would be.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "kernels"), str(ROOT / "benchmarks")]

from pagesim.kernels.bench_cases import Grid, Heads  # noqa: E402  (it loads neither torch nor triton)

LEAST_OF_COPY_BANDWIDTH = 0.85
MOST_OVER_TWIN = 1.02
TARGET_BATCH, TARGET_CONTEXT = 64, 2048

NOTE, WIDE = Heads(), Heads(32, 8, 128)
TARGET = Grid((16,), (TARGET_CONTEXT,), (TARGET_BATCH,))
GRIDS = (  # what matters most first: the engine's turn comes after the first NUM_FIRST
    (TARGET, NOTE), (TARGET, WIDE),
    *((Grid((size,), (2048,), (64,)), heads) for size in (32, 64, 128) for heads in (NOTE, WIDE)),
    *((Grid((16,), (context,), (1, 8, 64, 256)), NOTE) for context in (128, 512, 2048, 8192, 32768)),
    *((Grid((16,), (context,), (1, 256)), WIDE) for context in (512, 8192)),
)  # fmt: skip
NUM_FIRST = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="no new case is begun after so many")
    parser.add_argument("--out", type=Path, help="file for the raw JSON [default: benchmarks/results/gpu-CARD.json]")
    parser.add_argument("--plan", action="store_true", help="print what would be run, and run nothing")
    options = parser.parse_args()
    if options.plan:
        print("\n".join(plan()))
        return 0
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        print("error: no CUDA device was found; accepted: a card of compute capability 7.5 or newer", file=sys.stderr)
        return 2
    return check(torch.device("cuda", 0), time.monotonic() + 60 * options.minutes, options.out)


def check(device: Any, deadline_s: float, out: Path | None) -> int:
    """All of it, in the order of what matters most; the file is written anew after every part."""
    from gpu_check_cases import correctness
    from gpu_check_engine import Workload, throughput

    from pagesim.kernels.bench import describe
    from pagesim.kernels.runtime import card_of

    report: dict[str, Any] = {
        "schema": "pagesim.gpu_check/1",
        "command": " ".join(["python", *sys.argv]),
        "python": sys.version.split()[0],
        "device": describe(device),
        "driver": driver(),
    }
    card = re.sub("[^a-z0-9]+", "-", report["device"]["name"].lower())
    out = out or ROOT / "benchmarks" / "results" / f"gpu-{card}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    report["correctness"] = list(correctness(str(device)))
    save(out, report)
    report["bench"] = []
    for part in measure(GRIDS[:NUM_FIRST], deadline_s):
        report["bench"].append(part)
        save(out, report)
    report["targets"] = [target(part) for part in report["bench"][:2]]
    workload = Workload()
    report["engine"] = {"workload": asdict(workload), "rows": []}
    for row in throughput(str(device), card_of(device).capability, workload, deadline_s):
        report["engine"]["rows"].append(row)
        save(out, report)
    for part in measure(GRIDS[NUM_FIRST:], deadline_s):
        report["bench"].append(part)
        save(out, report)
    save(out, report)
    return verdict(report, out)


def plan() -> list[str]:
    """What a run does, a line each, in its order: from the very lists that the run walks."""
    from gpu_check_cases import CHUNKS, FAR_BLOCKS, SHAPES
    from gpu_check_engine import BACKENDS, Workload

    lengths = [length for length, _ in CHUNKS]
    lines = [f"correctness: decode and prefill, lengths {lengths}, fp16, bf16 (from 8.0 on) and fp32, each addressing:"]
    lines += [f"  {heads} heads over {kv_heads} of {head_dim}" for heads, kv_heads, head_dim in SHAPES]
    lines.append(f"  and KV write, block copy, and decode from the end of a pool of {FAR_BLOCKS} blocks")
    lines += [_bench_line(grid, heads) for grid, heads in GRIDS[:NUM_FIRST]]
    lines += [f"engine: {asdict(Workload())}, backend {each.name}, cache {each.cache}" for each in BACKENDS]
    return [*lines, *(_bench_line(grid, heads) for grid, heads in GRIDS[NUM_FIRST:])]


def _bench_line(grid: Grid, heads: Heads) -> str:
    return (
        f"bench: batch {list(grid.batches)}, context {list(grid.contexts_tokens)}, blocks of {list(grid.block_sizes)}, "
        f"{heads.num_heads} heads over {heads.num_kv_heads} of {heads.head_dim}, {heads.dtype}"
    )


def verdict(report: dict[str, Any], out: Path) -> int:
    """Print what is wrong and what was met; 1 if a kernel is wrong. A missed target is a number, not a failure."""
    rows = report["correctness"]
    wrong = [row for row in rows if not row["right"]]
    for row in wrong:
        print(f"WRONG {row}")
    for found in report["targets"]:
        print("met   " if found["met"] else "MISSED", json.dumps(found))
    for row in report.get("engine", {}).get("rows", []):
        print("engine", json.dumps(row))
    print(f"{len(rows) - len(wrong)} of {len(rows)} checks right; raw numbers in {out}")
    return 1 if wrong else 0


def measure(grids: Sequence[tuple[Grid, Heads]], deadline_s: float) -> Iterator[dict[str, Any]]:
    """The bench of each grid that is begun before the deadline."""
    from pagesim.kernels.bench import bench_attention

    for grid, heads in grids:
        if time.monotonic() > deadline_s:
            yield {"grid": asdict(grid), "heads": asdict(heads), "not_run": "out of time"}
        else:
            yield {"grid": asdict(grid)} | bench_attention(grid, heads)


def target(part: dict[str, Any]) -> dict[str, Any]:
    """What was promised for batch 64 at 2,048 tokens in blocks of 16, what was found, and whether it is met."""
    rows = [row for row in part.get("rows", []) if "time_us" in row]
    paged = [row for row in rows if row.get("addressing") == "BY_BLOCK"]
    sdpa = [row["time_us"] for row in rows if row["kernel"].startswith("torch SDPA")]
    if not paged or not sdpa:
        return {"heads": part["heads"], "met": False, "why": "not measured"}
    best = min(paged, key=lambda row: row["time_us"])
    twin = next(
        row["time_us"]
        for row in rows
        if row.get("addressing") == "CONTIGUOUS" and row["tiles_in_flight"] == best["tiles_in_flight"]
    )
    of_copy, over_twin = best["of_copy_bandwidth"], best["time_us"] / twin
    met = of_copy >= LEAST_OF_COPY_BANDWIDTH and over_twin <= MOST_OVER_TWIN and min(sdpa) > best["time_us"]
    return {
        "heads": part["heads"],
        "met": met,
        "of_copy_bandwidth": of_copy,
        "paged_over_contiguous": over_twin,
        "sdpa_over_paged": min(sdpa) / best["time_us"],
    }


def driver() -> str:
    """The driver's version, as nvidia-smi gives it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"not known: {error}"


def save(path: Path, report: dict[str, Any]) -> None:
    """Write whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
