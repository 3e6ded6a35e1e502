"""Timing decode attention on a card: ours in each addressing, its twin, and the competitors, over the bytes they move.

Times are medians of `triton.testing.do_bench` over CUDA-graph replays: Python's launch is not in them. Inputs rotate
over more than the L2. Left out: prefill, and the engine around the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import cycle
from typing import Any

import torch
import triton

from pagesim.kernels import bench_peers
from pagesim.kernels.addressing import Addressing
from pagesim.kernels.bench_cases import Case, Grid, Heads, num_copies, ratios
from pagesim.kernels.bench_inputs import Inputs, make_inputs
from pagesim.kernels.decode import decode_attention, decode_shape
from pagesim.kernels.errors import BackendError
from pagesim.kernels.runtime import card_of
from pagesim.kernels.settings import Card, DecodeLaunch, decode_launch, num_stages, settings_for

Run = Callable[[], object]
Timer = Callable[[list[Run]], float]  # milliseconds of one run, taken over the runs in turn
Row = dict[str, Any]

COPY_BYTES = 2**30
KEEP_FREE = 0.9  # of the card's free memory, what one case may use


def bench_attention(
    grid: Grid, heads: Heads, advance: Callable[[int], None] = lambda steps: None, timer: Timer | None = None
) -> Row:
    """Every case of the grid on the current CUDA device. Raises BackendError where there is none.

    A case that does not fit the card, or a competitor that fails, is a row with a reason and without a time.
    """
    if not torch.cuda.is_available():
        raise BackendError("no CUDA device was found; accepted: a card of compute capability 7.5 or newer")
    device = torch.device("cuda", torch.cuda.current_device())
    card = card_of(device)
    timer = timer or graph_timer
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    copy_bytes_per_s = copy_bandwidth(device, timer)
    rows: list[Row] = []
    for case in grid.cases(heads):
        rows += case_rows(case, device, card, num_copies(case, l2_bytes), copy_bytes_per_s, timer)
        advance(1)
    return {
        "measured": True,
        "device": describe(device),
        "l2_bytes": l2_bytes,
        "copy_bytes_per_s": copy_bytes_per_s,
        "heads": asdict(heads),
        "rows": rows,
        "ratios": ratios(rows),
    }


def case_rows(
    case: Case, device: torch.device, card: Card, copies: int, copy_bytes_per_s: float, timer: Timer
) -> list[Row]:
    """All rows of one case."""
    place = {"batch": case.batch, "context_tokens": case.context_tokens, "block_size": case.block_size}
    needed = 3 * copies * case.kv_bytes  # pool, twin, and the gather that makes the twin
    if device.type == "cuda" and needed > KEEP_FREE * torch.cuda.mem_get_info(device)[0]:
        return [place | {"kernel": "all", "skipped": f"needs {needed} bytes of device memory"}]
    inputs = [make_inputs(case, device, seed) for seed in range(copies)]
    rows = [row for tiles in tiles_to_try(card) for row in our_rows(inputs, card, tiles, timer)]
    for name, prepare in bench_peers.installed().items():
        rows.append({"kernel": name} | timed(lambda: timer([prepare(each) for each in inputs])))  # noqa: B023
    for row in rows:
        if "time_us" in row:
            bytes_per_s = case.bytes_moved / (row["time_us"] * 1e-6)
            row |= {"bytes_per_s": bytes_per_s, "of_copy_bandwidth": bytes_per_s / copy_bytes_per_s}
    return [place | {"bytes_moved": case.bytes_moved} | row for row in rows]


def tiles_to_try(card: Card) -> list[int]:
    """Nothing in flight, where the pair differs in the table alone, and the tuned number."""
    return sorted({0, settings_for(card.capability).tiles_in_flight})


def our_rows(inputs: list[Inputs], card: Card, tiles_in_flight: int, timer: Timer) -> list[Row]:
    """Our kernel in each addressing at one tile, body and number of splits."""
    rows = []
    shape = decode_shape(inputs[0].query, inputs[0].sequences)
    for addressing in Addressing:
        launch = replace(
            decode_launch(card, shape, Addressing.BY_BLOCK), stages=num_stages(tiles_in_flight, addressing)
        )
        runs = [our_run(each, addressing, card, launch) for each in inputs]
        about = {"kernel": "pagesim", "addressing": addressing.name, "tiles_in_flight": tiles_in_flight}
        rows.append(about | asdict(launch) | {"body": launch.body.value} | timed(lambda: timer(runs)))  # noqa: B023
    return rows


def our_run(inputs: Inputs, addressing: Addressing, card: Card, launch: DecodeLaunch) -> Run:
    """One decode, ready to be called."""
    paged = addressing.reads_table
    cache, sequences = (inputs.cache, inputs.sequences) if paged else (inputs.twin, inputs.twin_sequences)
    return lambda: decode_attention(
        inputs.query, cache, sequences, inputs.options, addressing=addressing, card=card, launch=launch
    )


def timed(measure: Callable[[], float]) -> Row:
    """The time, or why there is none: one failing kernel must not cost the others their measurement."""
    try:
        return {"time_us": 1e3 * measure()}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def graph_timer(runs: list[Run]) -> float:
    """Capture each run in a CUDA graph and replay them in turn: milliseconds, the median of do_bench."""
    turn = cycle([_captured(run) for run in runs])
    return float(triton.testing.do_bench(lambda: next(turn)(), warmup=10, rep=50, return_mode="median"))


def copy_bandwidth(device: torch.device, timer: Timer, num_bytes: int = COPY_BYTES) -> float:
    """Bytes per second, read plus written, of torch's copy of a buffer far larger than the L2."""
    source = torch.empty(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / (timer([lambda: target.copy_(source)]) * 1e-3)


def describe(device: torch.device) -> Row:
    """The card and the versions a number belongs to."""
    facts = torch.cuda.get_device_properties(device)
    return {
        "name": facts.name,
        "compute_capability": f"{facts.major}.{facts.minor}",
        "num_multiprocessors": facts.multi_processor_count,
        "memory_bytes": facts.total_memory,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
    }


def _captured(run: Run) -> Run:
    for _ in range(2):  # compile, and let lazy initialisation happen, outside the capture
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay
