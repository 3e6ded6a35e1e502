"""`pagesim validate replay`: one trace through the simulator and through the engine."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands import reading
from pagesim.commands import run_options as o
from pagesim.commands import run_serving as q
from pagesim.commands.kernel import one_line_errors
from pagesim.commands.replay_out import hand_out
from pagesim.commands.replay_setup import NUM_BLOCKS, Machine, Pool, Setup, Wish, of_scenario
from pagesim.commands.run import refuse_beside_scenario
from pagesim.sim.config import WorkloadConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.validate.realtime.result import TimeComparison
    from pagesim.validate.replay.result import ReplayResult

DRAWN = WorkloadConfig()
READ = reading.DEFAULTS
REPORT = Path("pagesim-replay.html")
BESIDE_SCENARIO = {
    "model": "--model", "device": "--device", "no_model": "--no-model", "as_json": "--json", "html": "--html",
    "no_html": "--no-html", "in_time": "--time", "time_loads": "--time-loads",
}  # fmt: skip
TIME_LOADS = "0.5,1,2"
MODEL, DEVICE, REQUESTS, MAX_MODEL_LEN, LOAD = "random:tiny", "cpu", 500, 1024, "moderate"


def replay(
    context: typer.Context,
    load: Annotated[
        str | None,
        o.option(
            "--load",
            metavar="moderate|high|X",
            help=f"A preset, or X times what a full batch finishes; a --trace is scaled. [default: {LOAD}]",
        ),
    ] = None,
    trace: o.TraceFile = None,
    scenario: Annotated[
        str | None,
        o.option("--scenario", metavar="NAME|FILE", help="An experiment of `pagesim run --scenario`, or a recording."),
    ] = None,
    allocator: Annotated[
        str, o.option("--allocator", metavar="NAME", help="paged, reservation, exact-fit[:first|best|next|worst].")
    ] = "paged",
    model: Annotated[
        str, o.option("--model", help="The engine's: random:tiny, random:qwen2.5-0.5b, a directory or a hub id.")
    ] = MODEL,
    device: Annotated[str, o.option("--device", help="cpu, cuda or cuda:N.")] = DEVICE,
    no_model: Annotated[bool, o.option("--no-model", help="The engine's scheduler alone: no torch, no pool.")] = False,
    num_blocks: Annotated[
        int | None, o.option("--num-blocks", help=f"The pool, in blocks, [default: {NUM_BLOCKS}]")
    ] = None,
    kv_bytes: Annotated[
        str | None, o.option("--kv-bytes", metavar="SIZE", help="or in bytes, like 64MiB, of which the engine tells,")
    ] = None,
    memory: Annotated[
        str | None, o.option("--memory", metavar="SIZE", help="or what weights and activations leave of that.")
    ] = None,
    block_size: o.BlockSize = 16,
    max_model_len: o.MaxModelLen = MAX_MODEL_LEN,
    arrivals: o.Arrivals = DRAWN.arrivals,
    lengths: o.Lengths = DRAWN.lengths,
    prompt_share: o.PromptShare = DRAWN.prompt_share,
    prompt_lengths: o.PromptLengths = DRAWN.prompt_lengths,
    output_lengths: o.OutputLengths = DRAWN.output_lengths,
    requests: Annotated[int | None, o.option("--requests", help=f"How many are drawn. [default: {REQUESTS}]")] = None,
    seed: o.Seed = 0,
    token_budget: q.TokenBudget = None,
    max_num_seqs: q.MaxNumSeqs = None,
    no_chunked_prefill: q.NoChunkedPrefill = False,
    long_prefill_threshold: q.LongPrefillThreshold = None,
    no_reserve_full_isl: q.NoReserveFullIsl = False,
    watermark: q.Watermark = None,
    policy: q.PolicyName = None,
    prefix_caching: q.PrefixCaching = False,
    fork: q.ForkRule = None,
    step_time: q.StepTimeAlone = None,
    in_time: Annotated[
        bool,
        o.option(
            "--time",
            help="Calibrate step times, then serve the trace in real time too, below, at and above the knee: minutes.",
        ),
    ] = False,
    time_loads: Annotated[
        str | None,
        o.option("--time-loads", metavar="X,...", help=f"Times the rate of the knee. [default: {TIME_LOADS}]"),
    ] = None,
    on_bad_row: reading.OnBadRow = READ.on_bad_row,
    zero_output: reading.ZeroOutput = READ.zero_output,
    unsorted: reading.Unsorted = READ.unsorted,
    duplicates: reading.Duplicates = READ.duplicates,
    jitter: reading.JitterS = READ.jitter_s,
    jitter_seed: reading.JitterSeed = READ.jitter_seed,
    hash_block_tokens: reading.HashBlockTokens = READ.hash_block_tokens,
    start: reading.Start = READ.start,
    limit: reading.Limit = READ.limit,
    as_json: Annotated[bool, o.option("--json", help="Print JSON, schema pagesim.replay/1.")] = False,
    html: Annotated[
        Path | None,
        o.option("--html", metavar="FILE", help=f"Where the page goes. [default: {REPORT}; with --json, nowhere]"),
    ] = None,
    no_html: o.NoHtml = False,
) -> None:
    """Put one trace through the simulator and through the engine, and compare every step and the real pool.

    Exit status: 0 if they agree, 1 if they differ, 2 on wrong usage. Times have no say in it.
    """
    if no_html and html:
        raise UsageError("--html and --no-html given; accepted: one of the two")
    page = None if no_html else html or (None if as_json else REPORT)
    if page is not None:
        from pagesim.sim.files import check_writable

        check_writable(page)
    machine = None if no_model else Machine(model, device)
    at = _loads(in_time, time_loads, machine)
    with one_line_errors():
        if scenario is not None:
            refuse_beside_scenario(context, BESIDE_SCENARIO)
            setup = of_scenario(scenario, machine)
        else:
            rules: dict[str, Any] = {
                "token_budget": token_budget, "max_num_seqs": max_num_seqs, "watermark": watermark, "policy": policy,
                "long_prefill_threshold": long_prefill_threshold, "fork": fork, "allocator": allocator,
                "chunked_prefill": not no_chunked_prefill, "reserve_full_isl": not no_reserve_full_isl,
                "prefix_caching": prefix_caching, "block_size": block_size, "max_model_len": max_model_len,
            }  # fmt: skip
            drawn = {
                "arrivals": arrivals, "lengths": lengths, "prompt_share": prompt_share,
                "prompt_lengths": prompt_lengths, "output_lengths": output_lengths, "num_requests": requests,
            }  # fmt: skip
            read = reading.read_options(
                on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
            )
            wish = Wish(load or (None if trace else LOAD), trace, read, drawn, REQUESTS, seed, step_time)
            pool = Pool(num_blocks, kv_bytes, memory)
            setup = wish.setup({name: value for name, value in rules.items() if value is not None}, pool, machine)
        result = carry_out(setup, timed=bool(at))
        if at:
            try:
                result = replace(result, time=_in_real_time(setup, at))
            except (
                BaseException
            ):  # the calibration's loads did not fit, or Ctrl-C: the comparison is there all the same
                hand_out(result, page, as_json)
                raise
    hand_out(result, page, as_json)
    if not result.agrees:
        raise typer.Exit(1)


def _loads(in_time: bool, said: str | None, machine: Machine | None) -> list[float]:
    """Empty without --time. Raises UsageError."""
    if not in_time:
        if said is not None:
            raise UsageError("--time-loads without --time; accepted: both")
        return []
    if machine is None:
        raise UsageError("--time and --no-model: a scheduler alone takes no time; accepted: one of the two")
    try:
        loads = [float(text) for text in (TIME_LOADS if said is None else said).split(",")]
    except ValueError:
        loads = []
    if not loads or not all(0 < load < inf for load in loads):
        raise UsageError(f"--time-loads '{said}'; accepted: numbers above 0, like {TIME_LOADS}")
    return loads


def carry_out(setup: Setup, timed: bool = False) -> ReplayResult:
    """With progress on a terminal. `timed`: in real time too, later. Raises UsageError and EngineError."""
    from pagesim.sim.console import progress
    from pagesim.validate.replay.logical import replay_logically
    from pagesim.validate.replay.result import ReplayResult

    experiment, count = setup.experiment, len(setup.experiment.samples)
    if timed:
        from pagesim.validate.realtime.run import check_rate

        check_rate(experiment)
    with progress("requests simulated, then scheduled by the engine", 2 * count) as advance:
        logical = replay_logically(experiment, advance)
    physical = None
    if setup.engine is not None and logical.simulated is not None:
        from pagesim.validate.replay.physical import replay_physically

        with progress(f"requests served by {setup.engine.config.model}", count) as advance:
            physical = replay_physically(experiment, logical.simulated, setup.engine, advance)
    return ReplayResult(setup.source, setup.step_time, experiment, logical, physical)


def _in_real_time(setup: Setup, at: list[float]) -> TimeComparison:
    from pagesim.sim.console import progress
    from pagesim.validate.calibrate.design import loads
    from pagesim.validate.calibrate.source import REPEATS
    from pagesim.validate.calibrate.threads import threads
    from pagesim.validate.realtime.run import Bench

    assert setup.engine is not None
    config, experiment = setup.engine.config, setup.experiment
    bench = Bench.start(experiment, config.model, config.device)
    reach, count = bench.reach(experiment), len(setup.experiment.samples)
    with threads(bench.engine):
        with progress("loads timed for the calibration", REPEATS * len(loads(reach))) as advance:
            bench.calibrate(reach, REPEATS, advance)
        with progress("requests served in real time", len(at) * count) as advance:
            return bench.compare(experiment, at, advance)
