"""How fast traces are read, and in how much memory: writes a file of made-up requests, reads it, prints both.

    python benchmarks/trace_reading.py --rows 10000000 --format csv

Peak memory is that of a process of its own, which does nothing but read (VmHWM, so Linux only); the size of the trace's
three columns is printed beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from pagesim.sim.own_format import write_trace
from pagesim.sim.trace import Trace

NAMES = {"csv": "trace.csv", "jsonl": "trace.jsonl", "parquet": "trace.parquet"}


def made_up(rows: int) -> Trace:
    rng = np.random.default_rng(1)
    return Trace(
        np.round(np.cumsum(rng.exponential(0.1, rows)), 6), rng.integers(1, 4000, rows), rng.integers(1, 500, rows)
    )


def write(trace: Trace, path: Path) -> None:
    """Our own formats, or for .csv the columns of Vidur."""
    if path.suffix != ".csv":
        write_trace(trace, path)
        return
    columns = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
    arrays = [pa.array(trace.arrival_s), pa.array(trace.prompt_tokens), pa.array(trace.output_tokens)]
    pacsv.write_csv(pa.table(arrays, names=list(columns)), path)


def read(path: Path) -> None:
    from pagesim.sim.formats import read_trace

    before = peak_kib()
    start = time.perf_counter()
    trace, _ = read_trace(path)
    seconds = time.perf_counter() - start
    print(json.dumps({"rows": len(trace), "seconds": seconds, "before_kib": before, "peak_kib": peak_kib()}))


def peak_kib() -> int:
    """Most memory this program has held. ru_maxrss will not do: it counts the process that started this one too."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--format", choices=[*NAMES, "all"], default="all")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read)
        return
    for name in NAMES if options.format == "all" else [options.format]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / NAMES[name]
            write(made_up(options.rows), path)
            command = [sys.executable, __file__, "--read", str(path)]
            figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            megabytes, columns = path.stat().st_size / 1e6, 24 * figures["rows"] / 1e6
            print(
                f"{name}: {figures['rows']:,} rows, {megabytes:,.0f} MB, {figures['rows'] / figures['seconds']:,.0f} "
                f"rows/s, peak {figures['peak_kib'] / 1024:,.0f} MiB ({figures['before_kib'] / 1024:,.0f} MiB before "
                f"reading; the three columns are {columns:,.0f} MB)"
            )


if __name__ == "__main__":
    main()
