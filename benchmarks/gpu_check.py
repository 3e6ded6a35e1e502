"""For the day a CUDA card is at hand: are the kernels right on it, and how fast are they? At most ten minutes.

    python benchmarks/gpu_check.py [--minutes 9] [--out benchmarks/results/NAME.json]

Needs torch, triton and numpy, and nothing else; pagesim need not be installed. The engine's throughput is left out.
Exit status: 0 all right, 1 a check failed, 2 no CUDA device.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "kernels"), str(ROOT / "benchmarks")]

LEAST_OF_COPY_BANDWIDTH = 0.85
MOST_OVER_TWIN = 1.02
TARGET_BATCH, TARGET_CONTEXT = 64, 2048


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="no new case is begun after so many")
    parser.add_argument("--out", type=Path, help="file for the raw JSON [default: benchmarks/results/gpu-CARD.json]")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        print("error: no CUDA device was found; accepted: a card of compute capability 7.5 or newer", file=sys.stderr)
        return 2
    return check(torch.device("cuda", 0), time.monotonic() + 60 * options.minutes, options.out)


def check(device: Any, deadline_s: float, out: Path | None) -> int:
    """All of it, in the order of what matters most; the file is written anew after every part."""
    from gpu_check_cases import correctness

    from pagesim.kernels.bench import describe

    report: dict[str, Any] = {
        "schema": "pagesim.gpu_check/1",
        "command": " ".join(["python", *sys.argv]),
        "python": sys.version.split()[0],
        "device": describe(device),
        "driver": driver(),
        "left_out": "the engine's throughput",
    }
    card = re.sub("[^a-z0-9]+", "-", report["device"]["name"].lower())
    out = out or ROOT / "benchmarks" / "results" / f"gpu-{card}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    report["correctness"] = list(correctness(str(device)))
    save(out, report)
    report["bench"] = []
    for part in measure(deadline_s):
        report["bench"].append(part)
        save(out, report)
    report["targets"] = [target(part) for part in report["bench"][:2]]
    save(out, report)
    return verdict(report, out)


def verdict(report: dict[str, Any], out: Path) -> int:
    """Print what is wrong and what was met; 1 if a kernel is wrong. A missed target is a number, not a failure."""
    rows = report["correctness"]
    wrong = [row for row in rows if not row["right"]]
    for row in wrong:
        print(f"WRONG {row}")
    for found in report["targets"]:
        print("met   " if found["met"] else "MISSED", json.dumps(found))
    print(f"{len(rows) - len(wrong)} of {len(rows)} checks right; raw numbers in {out}")
    return 1 if wrong else 0


def measure(deadline_s: float) -> Iterator[dict[str, Any]]:
    """The bench, a few cases at a time: the target case first, then the axes, then a wider model."""
    from pagesim.kernels.bench import bench_attention
    from pagesim.kernels.bench_cases import Grid, Heads

    note, wide = Heads(), Heads(32, 8, 128)
    target_case = Grid((16,), (TARGET_CONTEXT,), (TARGET_BATCH,))
    plan = [(target_case, note), (target_case, wide)]
    plan += [(Grid((size,), (2048,), (64,)), heads) for size in (32, 64, 128) for heads in (note, wide)]
    plan += [(Grid((16,), (context,), (1, 8, 64, 256)), note) for context in (128, 512, 2048, 8192, 32768)]
    plan += [(Grid((16,), (context,), (1, 256)), wide) for context in (512, 8192)]
    for grid, heads in plan:
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
