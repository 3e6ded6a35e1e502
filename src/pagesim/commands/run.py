"""`pagesim run`: several allocators, one trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pagesim.commands import reading
from pagesim.commands import run_options as o
from pagesim.commands import run_serving as q
from pagesim.commands.run_config import flag, run_config
from pagesim.commands.run_out import Outputs, carry_out
from pagesim.commands.scenario import run_scenario
from pagesim.sim.config import RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.poolmap.record import MapOptions

DEFAULT = RunConfig()
DRAWN = WorkloadConfig()
READ = reading.DEFAULTS


def run(
    context: typer.Context,
    load: o.Load = None,
    rate: o.Rate = None,
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
    token_budget: q.TokenBudget = None,
    max_num_seqs: q.MaxNumSeqs = None,
    no_chunked_prefill: q.NoChunkedPrefill = False,
    long_prefill_threshold: q.LongPrefillThreshold = None,
    no_reserve_full_isl: q.NoReserveFullIsl = False,
    watermark: q.Watermark = None,
    policy: q.PolicyName = None,
    victim: q.VictimRule = None,
    prefix_caching: q.PrefixCaching = False,
    prefix_match_unit: q.MatchUnit = None,
    evict: q.EvictRule = None,
    preempt: q.PreemptRule = None,
    host_memory: q.HostMemory = None,
    host_bandwidth: q.HostBandwidth = None,
    fork: q.ForkRule = None,
    step_time: q.StepTimeForm = None,
    slo: q.Slo = None,
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
    map_frames: o.MapFrames = None,
    map_from: o.MapFrom = None,
    out: o.Out = None,
) -> None:
    """Put several allocators through the same trace and say what each one wastes and refuses."""
    said = locals()
    if scenario is not None:
        refuse_beside_scenario(context, {"steps": "--steps", "html": "--html", "as_json": "--json"})
        run_scenario(scenario, steps, html, as_json)
        return
    config = run_config(said)
    report = html or (None if as_json else o.REPORT)
    if no_html and html:
        raise UsageError("--html and --no-html given; accepted: one of the two")
    if steps is not None and (len(config.allocators) > 1 or config.num_runs > 1):
        raise UsageError("--steps is the log of one allocator in one run; accepted: with --allocator NAME and --runs 1")
    outputs = Outputs(
        as_json, None if no_html else report, out, steps, _map_options(map_frames, map_from, report, no_html)
    )
    carry_out(config, trace, check, outputs)


def _map_options(frames: int | None, from_s: float | None, report: Path | None, no_html: bool) -> MapOptions:
    from pagesim.sim.poolmap.record import MapOptions

    said = {"frames": frames, "from_s": from_s}
    if (report is None or no_html) and (named := [name for name, value in said.items() if value is not None]):
        raise UsageError(
            f"--map-{named[0].removesuffix('_s')} is of the report, which is not written; accepted: --html"
        )
    return MapOptions(**{name: value for name, value in said.items() if value is not None})  # type: ignore[arg-type]


def refuse_beside_scenario(context: typer.Context, accepted: dict[str, str]) -> None:
    """Raise UsageError if an option was given that is not among `accepted`, parameter to flag."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in ("scenario", *accepted):
            *others, last = accepted.values()
            allowed = f"{', '.join(others)} and {last}" if others else last
            raise UsageError(f"{flag(name)} and --scenario, which brings requests, pool and rules; accepted: {allowed}")
