"""`pagesim run`: several allocators, one trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pagesim.commands import reading
from pagesim.commands import run_options as o
from pagesim.commands import run_serving as q
from pagesim.commands.run_out import Outputs, carry_out
from pagesim.commands.run_pool import run_pool
from pagesim.commands.scenario import run_scenario
from pagesim.sim.config import PER_SECOND, RunConfig, WorkloadConfig
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
    if scenario is not None:
        refuse_beside_scenario(context, {"steps": "--steps", "html": "--html", "as_json": "--json"})
        run_scenario(scenario, steps, html, as_json)
        return
    rules: dict[str, Any] = {
        "token_budget": token_budget, "max_num_seqs": max_num_seqs, "long_prefill_threshold": long_prefill_threshold,
        "watermark": watermark, "policy": policy, "victim": victim,
        "chunked_prefill": False if no_chunked_prefill else None,
        "reserve_full_isl": False if no_reserve_full_isl else None,
        "prefix_caching": prefix_caching or None, "prefix_match_unit": prefix_match_unit, "evict": evict,
        "preempt": preempt, "host_memory": host_memory, "host_bandwidth": host_bandwidth, "fork": fork,
    }  # fmt: skip
    rules = {name: value for name, value in rules.items() if value is not None}
    if rate is not None:
        if load is not None:
            raise UsageError("--load and --rate given; accepted: one of the two")
        load = f"{rate:.17g}{PER_SECOND}"
    drawn: Any = {
        "arrivals": arrivals, "lengths": lengths, "prompt_share": prompt_share, "prompt_lengths": prompt_lengths,
        "output_lengths": output_lengths, "truncation": truncate, "num_requests": requests,
    }  # fmt: skip
    if trace is not None and (said := [name for name, value in drawn.items() if value != getattr(DRAWN, name)]):
        raise UsageError(f"--trace and {_flag(said[0])} given; accepted: one of the two")
    read = reading.read_options(
        on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
    )
    if trace is None:
        reading.refuse_unread(read)
    limits = {"max_num_batched_tokens": token_budget, "max_num_seqs": max_num_seqs}
    pool = run_pool(pool_tokens, num_blocks, model, device, utilization, tp, block_size, limits)
    words: Any = {"on_full": on_full}
    if on_full == "queue":
        _refuse_placement({"--growth": growth != DEFAULT.growth, "--residence": residence,
                           "--mean-residence": mean_residence, "--decode-rate": decode_rate})  # fmt: skip
        card = (device, model) if device and model else None
        words["queue"] = q.queue_config(pool, max_model_len, rules, step_time, slo, card)
    else:
        q.refuse_rules(rules | {"step_time": step_time, "slo": slo, "steps": steps})
        rule = residence or ("decode" if trace else "total")
        words |= {"growth": growth, "residence": rule, **_residence(rule, mean_residence, decode_rate)}
    config = RunConfig(
        load=load if load is not None or trace else DEFAULT.load,
        trace=None if trace is None else str(trace),
        reading=read,
        workload=WorkloadConfig(**drawn),
        pool=pool,
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


def _names(text: str) -> tuple[str, ...]:
    from pagesim.sim.allocators import builtin_names

    if text == o.ALL:
        return tuple(name for name in builtin_names() if name != "exact-fit:first")  # exact-fit is that one
    return tuple(name.strip() for name in text.split(",") if name.strip())


def refuse_beside_scenario(context: typer.Context, accepted: dict[str, str]) -> None:
    """Raise UsageError if an option was given that is not among `accepted`, parameter to flag."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in ("scenario", *accepted):
            *others, last = accepted.values()
            raise UsageError(
                f"{_flag(name)} and --scenario, which brings requests, pool and rules; "
                f"accepted: {', '.join(others)} and {last}"
            )


def _refuse_placement(said: dict[str, Any]) -> None:
    for flag, value in said.items():
        if value:
            raise UsageError(f"{flag} is of a request that stays as long as it likes; accepted: --on-full refuse")


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
