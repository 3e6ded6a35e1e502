"""A sweep on one core and on two: points a second, seconds of processor, and the memory of the process that drives it.

python benchmarks/sweep.py [--points 1000] [--rounds 1]

On a machine that others use too, the wall clock says more of them than of this: compare the seconds of processor.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SEEDS = 20
DESIGN = ("--load", "0.5:1.4:0.1", "--requests", "2000", "--no-html")
LOADS = 10
CORES = (1, 2)


@dataclass(frozen=True, slots=True)
class Taken:
    """Wall clock, processor time of driver and workers together, and the driver's peak memory."""

    wall_s: float
    processor_s: float
    peak_mib: float


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sweep(points: int, jobs: int, folder: Path) -> Taken:
    sizes = ",".join(str(8 * (k + 1)) for k in range(points // (LOADS * SEEDS)))
    words = ["sweep", *DESIGN, "--block-size", sizes, "--seeds", str(SEEDS), "--jobs", str(jobs), "--out", str(folder)]
    before_s, start_s, peak_kib = processor_s(), time.perf_counter(), 0
    command = [sys.executable, "-m", "pagesim", *words]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while driver.poll() is None:
        status = Path(f"/proc/{driver.pid}/status")
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
        peak_kib = max(peak_kib, int(found[1]) if found else 0)
        time.sleep(0.05)
    assert driver.returncode == 0
    return Taken(time.perf_counter() - start_s, processor_s() - before_s, peak_kib / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000, help=f"a multiple of {LOADS * SEEDS}")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    for _ in range(asked.rounds):
        whole = {}
        for jobs in CORES:
            for points in (LOADS * SEEDS, asked.points):
                with tempfile.TemporaryDirectory() as folder:
                    whole[jobs] = taken = sweep(points, jobs, Path(folder))
                print(
                    f"--jobs {jobs}, {points:,} points: {taken.wall_s:.1f} s, {points / taken.wall_s:.1f}/s; "
                    f"{taken.processor_s:.1f} s of processor; driver {taken.peak_mib:.0f} MiB"
                )
        one, two = (whole[jobs] for jobs in CORES)
        print(
            f"two over one: {one.wall_s / two.wall_s:.2f}; processor {two.processor_s / one.processor_s:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
