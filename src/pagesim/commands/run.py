"""`pagesim run`: several allocators, one trace."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagesim.commands import reading
from pagesim.commands import run_options as o
from pagesim.commands.run_pool import run_pool
from pagesim.commands.scenario import run_scenario
from pagesim.sim.config import RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.result import RunResult
    from pagesim.sim.trace import Trace

DEFAULT = RunConfig()
DRAWN = WorkloadConfig()
READ = reading.DEFAULTS
COLUMNS_AT_ONCE = 3  # allocators beside each other, on 80 characters


def run(
    load: o.Load = None,
    trace: o.TraceFile = None,
    scenario: o.Scenario = None,
    steps: o.Steps = None,
    allocators: o.Allocators = o.DEFAULT_NAMES,
    pool_tokens: o.PoolTokens = None,
    num_blocks: o.NumBlocks = None,
    model: o.Model = None,
    device: o.Device = None,
    utilization: o.Utilization = None,
    tp: o.TensorParallel = None,
    block_size: o.BlockSize = DEFAULT.pool.block_size,
    max_model_len: o.MaxModelLen = DEFAULT.max_model_len,
    arrivals: o.Arrivals = DRAWN.arrivals,
    lengths: o.Lengths = DRAWN.lengths,
    prompt_share: o.PromptShare = DRAWN.prompt_share,
    prompt_lengths: o.PromptLengths = DRAWN.prompt_lengths,
    output_lengths: o.OutputLengths = DRAWN.output_lengths,
    truncate: o.Truncate = DRAWN.truncation,
    requests: o.Requests = DRAWN.num_requests,
    seed: o.Seed = DEFAULT.seed,
    on_full: o.OnFull = DEFAULT.on_full,
    growth: o.Growth = DEFAULT.growth,
    residence: o.Residence = None,
    mean_residence: o.MeanResidence = None,
    decode_rate: o.DecodeRate = None,
    warmup: o.Warmup = DEFAULT.warmup,
    runs: o.NumRuns = None,
    check: o.Check = False,
    on_bad_row: reading.OnBadRow = READ.on_bad_row,
    zero_output: reading.ZeroOutput = READ.zero_output,
    unsorted: reading.Unsorted = READ.unsorted,
    duplicates: reading.Duplicates = READ.duplicates,
    jitter: reading.JitterS = READ.jitter_s,
    jitter_seed: reading.JitterSeed = READ.jitter_seed,
    hash_block_tokens: reading.HashBlockTokens = READ.hash_block_tokens,
    start: reading.Start = READ.start,
    limit: reading.Limit = READ.limit,
    as_json: o.AsJson = False,
    html: o.Html = None,
    no_html: o.NoHtml = False,
    out: o.Out = None,
) -> None:
    """Put several allocators through the same trace and say what each one wastes and refuses."""
    if scenario is not None:
        if load is not None or trace is not None:
            raise UsageError("--scenario brings its own requests; accepted: without --load and --trace")
        run_scenario(scenario, steps, as_json)
        return
    if steps is not None:
        raise UsageError("--steps is the log of a scheduler; accepted: together with --scenario")
    drawn: Any = {
        "arrivals": arrivals, "lengths": lengths, "prompt_share": prompt_share, "prompt_lengths": prompt_lengths,
        "output_lengths": output_lengths, "truncation": truncate, "num_requests": requests,
    }  # fmt: skip
    if trace is not None and (said := [name for name, value in drawn.items() if value != getattr(DRAWN, name)]):
        raise UsageError(f"--trace and {_flag(said[0])} given; accepted: one of the two")
    rule = residence or ("decode" if trace else "total")
    words: Any = {"on_full": on_full, "growth": growth, "residence": rule}
    words |= _residence(rule, mean_residence, decode_rate)
    config = RunConfig(
        load=load if load is not None or trace else DEFAULT.load,
        trace=None if trace is None else str(trace),
        reading=reading.read_options(
            on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
        ),
        workload=WorkloadConfig(**drawn),
        pool=run_pool(pool_tokens, num_blocks, model, device, utilization, tp, block_size),
        max_model_len=max_model_len,
        allocators=_names(allocators),
        **words,
        warmup=warmup,
        seed=seed,
        num_runs=runs if runs is not None else 1 if trace else DEFAULT.num_runs,
    )
    report = html or (None if as_json else o.REPORT)
    if no_html and html:
        raise UsageError("--html and --no-html given; accepted: one of the two")
    _carry_out(config, trace, check, as_json, None if no_html else report, out)


def _carry_out(
    config: RunConfig, path: Path | None, check: bool, as_json: bool, report: Path | None, out: Path | None
) -> None:
    from pagesim.sim.console import progress
    from pagesim.sim.facts import FILE_NAME
    from pagesim.sim.files import check_writable
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.result import RunResult
    from pagesim.sim.run import expected_requests
    from pagesim.sim.run import run as run_all

    for place in (report, None if out is None else out / FILE_NAME):
        if place is not None and (place is report or place.parent.exists()):
            check_writable(place)  # before an hour of work, not after
    trace: Trace | None = None if path is None else reading.read_with_progress(path, config.reading)[0]
    with progress("requests placed", expected_requests(config, trace)) as advance:
        result = RunResult.of(config, run_all(config, trace, check, advance))
    written = {} if out is None else {"result": result.save(out)}
    if report is not None:
        from pagesim.sim.report import write_report

        write_report(result, report, shlex.join(["pagesim", *sys.argv[1:]]))
        written["report"] = report
    if as_json:
        print(dumps(result.document()))
    else:
        _show(result)
    for what, place in written.items():
        print(f"{what}: {place}", file=sys.stderr if as_json else sys.stdout)


def _show(result: RunResult) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from pagesim.sim.run_table import legend, rows
    from pagesim.sim.summary import readings, sentences, setting, warning

    console = Console(highlight=False, markup=False)
    lines = Table.grid(padding=(0, 2))
    for line in setting(result).items():
        lines.add_row(*line)
    console.print(lines)
    if left_out := warning(result):
        console.print(f"\nNote: {left_out}")
    names, table_rows = list(result.allocators), rows(result)
    for first in range(0, len(names), COLUMNS_AT_ONCE):
        heads = [name.replace(":", "\n:") for name in names[first : first + COLUMNS_AT_ONCE]]
        table = Table("", *heads, box=SIMPLE, pad_edge=False)
        for column in table.columns:
            column.no_wrap = True
            column.justify = "left" if column is table.columns[0] else "right"
        for label, *cells in table_rows:
            table.add_row(label, *cells[first : first + COLUMNS_AT_ONCE])
        console.print(table)
    for sentence in sentences(result):
        console.print(f"- {sentence}")
    for remark in (readings(result), legend(result)):
        if remark:
            console.print(f"\n{remark}")
    console.print()


def _names(text: str) -> tuple[str, ...]:
    from pagesim.sim.allocators import builtin_names

    if text == o.ALL:
        return tuple(name for name in builtin_names() if name != "exact-fit:first")  # exact-fit is that one
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _flag(name: str) -> str:
    renamed = {"truncation": "truncate", "num_requests": "requests"}
    return "--" + renamed.get(name, name).replace("_", "-")


def _residence(rule: str, mean_s: float | None, decode_rate: float | None) -> dict[str, float]:
    if rule == "total" and decode_rate is not None:
        raise UsageError("--decode-rate goes with --residence decode; accepted: --mean-residence")
    if rule == "decode" and mean_s is not None:
        raise UsageError("--mean-residence goes with --residence total; accepted: --decode-rate")
    said = {"mean_residence_s": mean_s, "decode_rate": decode_rate}
    return {name: value for name, value in said.items() if value is not None}
