"""A sweep on one core and on two: points a second, seconds of processor, and the memory of the process that drives it.

python benchmarks/sweep.py [--points 1000] [--rounds 3]

Two sweeps of small points come first, for the driver's memory. Then each round is a sweep with one job, one with two,
and two halves of it at once, with one job each, that share nothing but the machine: about what a second core can give.
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
from statistics import median

SEEDS = 20
DESIGN = ("--load", "0.5:1.4:0.1", "--no-html")
LOADS = 10
REQUESTS, FEW_REQUESTS = 2000, 50  # of a point
SMALL = (1000, 4000)  # points


@dataclass(frozen=True, slots=True)
class Taken:
    """Wall clock, processor time of driver and workers together, and the driver's peak memory."""

    wall_s: float
    processor_s: float
    peak_mib: float


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(points: int, requests: int, jobs: int, seeds: range, folder: Path) -> list[str]:
    sizes = ",".join(str(8 * (k + 1)) for k in range(points // (LOADS * SEEDS)))
    varied = f"--requests {requests} --block-size {sizes} --seed {seeds.start} --seeds {len(seeds)} --jobs {jobs}"
    return [sys.executable, "-m", "pagesim", "sweep", *DESIGN, *varied.split(), "--out", str(folder)]


def at_once(commands: list[list[str]]) -> Taken:
    before_s, start_s, peak_kib = processor_s(), time.perf_counter(), 0
    drivers = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for words in commands]
    while any(driver.poll() is None for driver in drivers):
        for driver in drivers:
            status = Path(f"/proc/{driver.pid}/status")
            found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
            peak_kib = max(peak_kib, int(found[1]) if found else 0)
        time.sleep(0.05)
    assert not any(driver.returncode for driver in drivers)
    return Taken(time.perf_counter() - start_s, processor_s() - before_s, peak_kib / 1024)


def measured(name: str, points: int, requests: int, jobs: int, *parts: range) -> Taken:
    with tempfile.TemporaryDirectory() as folder:
        taken = at_once([command(points, requests, jobs, part, Path(folder) / str(part.start)) for part in parts])
    print(
        f"{name}, {points:,} points of {requests:,} requests: {taken.wall_s:.1f} s, {points / taken.wall_s:.1f}/s; "
        f"{taken.processor_s:.1f} s of processor; driver {taken.peak_mib:.0f} MiB",
        flush=True,
    )
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1000, help=f"a multiple of {LOADS * SEEDS}")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    seeds, half = range(1, SEEDS + 1), SEEDS // 2
    for points in SMALL:
        measured("two jobs", points, FEW_REQUESTS, 2, seeds)
    gains, bounds = [], []
    for _ in range(asked.rounds):
        one = measured("one job", asked.points, REQUESTS, 1, seeds)
        two = measured("two jobs", asked.points, REQUESTS, 2, seeds)
        apart = measured("two halves apart", asked.points, REQUESTS, 1, seeds[:half], seeds[half:])
        gains.append(one.wall_s / two.wall_s)
        bounds.append(one.wall_s / apart.wall_s)
        print(f"two jobs over one: {gains[-1]:.2f}; halves apart over one: {bounds[-1]:.2f}", flush=True)
    print(
        f"median of {asked.rounds}: two jobs over one {median(gains):.2f}, halves apart over one {median(bounds):.2f}"
    )


if __name__ == "__main__":
    main()
