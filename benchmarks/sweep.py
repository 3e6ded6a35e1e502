"""A sweep on one core and on two: points a second, and the memory of the process that drives it.

python benchmarks/sweep.py [--points 1000] [--rounds 1]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEEDS = 20
DESIGN = ("--load", "0.5:1.4:0.1", "--requests", "2000", "--no-html")
CORES = (1, 2)


def sweep(points: int, jobs: int, folder: Path) -> tuple[float, float]:
    """Seconds, and the driver's peak memory in MiB."""
    sizes = ",".join(str(8 * (k + 1)) for k in range(points // (10 * SEEDS)))
    words = ["sweep", *DESIGN, "--block-size", sizes, "--seeds", str(SEEDS), "--jobs", str(jobs), "--out", str(folder)]
    start_s, peak_kib = time.perf_counter(), 0
    driver = subprocess.Popen(
        [sys.executable, "-m", "pagesim", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while driver.poll() is None:
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{driver.pid}/status").read_text())
        except FileNotFoundError:
            break
        peak_kib = max(peak_kib, int(found[1]) if found else 0)
        time.sleep(0.05)
    assert driver.wait() == 0
    return time.perf_counter() - start_s, peak_kib / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000, help=f"a multiple of {10 * SEEDS}")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    for _ in range(asked.rounds):
        taken = {}
        for jobs in CORES:
            for points in (10 * SEEDS, asked.points):
                with tempfile.TemporaryDirectory() as folder:
                    seconds, peak = sweep(points, jobs, Path(folder))
                taken[jobs] = seconds
                print(
                    f"{jobs} cores, {points:,} points: {seconds:.1f} s, {points / seconds:.1f}/s; driver {peak:.0f} MiB"
                )
        print(f"two cores over one, {asked.points:,} points: {taken[1] / taken[2]:.2f}", flush=True)


if __name__ == "__main__":
    main()
