"""Timing the CPU backend's decode: a whole call, gathers included, beside torch's SDPA on K and V that lie ready.

Ragged batches draw their lengths evenly from 1 to the context. Left out: the rest of a layer.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from pagesim.kernels import bench_peers
from pagesim.kernels.bench_cases import Case, Grid, Heads
from pagesim.kernels.bench_inputs import Inputs, make_inputs
from pagesim.kernels.cpu_decode import decode_attention_cpu
from pagesim.kernels.sequences import Sequences

REPEATS = 15
COPY_BYTES = 2**28


def bench_cpu(grid: Grid, heads: Heads, advance: Callable[[int], None] = lambda steps: None) -> dict[str, Any]:
    """Every case of the grid on the CPU, with as many threads as torch has: medians of a call, one layer."""
    rows = []
    for case in grid.cases(heads):
        inputs = make_inputs(case, torch.device("cpu"), seed=0)
        ragged = shortened(inputs)
        for kind, sequences in (("equal", inputs.sequences), ("ragged", ragged)):
            tokens = int(sequences.host_lengths.sum())
            run = partial(decode_attention_cpu, inputs.query, inputs.cache, sequences, inputs.options)
            rows.append(_row(case, f"pagesim cpu, {kind} lengths", tokens, median_seconds(run)))
        rows.append(
            _row(
                case,
                "torch SDPA, contiguous",
                case.batch * case.context_tokens,
                median_seconds(bench_peers.torch_sdpa(inputs)),
            )
        )
        advance(1)
    return {
        "measured": True,
        "device": {"name": "cpu", "num_threads": torch.get_num_threads(), "torch": torch.__version__},
        "copy_bytes_per_s": copy_bandwidth(),
        "heads": asdict(heads),
        "rows": rows,
    }


def shortened(inputs: Inputs) -> Sequences:
    """The same batch with lengths drawn evenly from 1 to the context."""
    draw = random.Random(0)
    lengths = [draw.randint(1, inputs.case.context_tokens) for _ in range(inputs.case.batch)]
    return Sequences.paged(inputs.sequences.host_table, lengths, inputs.sequences.layout, "cpu")


def median_seconds(run: Callable[[], object]) -> float:
    """The median of REPEATS calls, after one that is not counted."""
    run()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def copy_bandwidth() -> float:
    """Bytes per second, read plus written, of copying a buffer far larger than the caches."""
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / median_seconds(lambda: target.copy_(source))


def _row(case: Case, kernel: str, tokens: int, seconds: float) -> dict[str, Any]:
    return {
        "batch": case.batch,
        "context_tokens": case.context_tokens,
        "block_size": case.block_size,
        "kernel": kernel,
        "tokens": tokens,
        "time_us": 1e6 * seconds,
        "bytes_per_s": case.kv_bytes * tokens / (case.batch * case.context_tokens) / seconds,
    }
