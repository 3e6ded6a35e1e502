"""`pagesim bench engine`: throughput and latencies of the engine, under a batch or a trace in real time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands import reading
from pagesim.commands.engine_options import takes_engine
from pagesim.commands.kernel import one_line_errors, wide_console
from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine
    from pagesim.sim.reading import ReadOptions
    from pagesim.sim.trace import Trace
    from pagesim.validate.load import Arrival

READ = reading.DEFAULTS
REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS = 16, 64, 64
LATENCIES = {"ttft_s": "time to first token", "itl_s": "between tokens", "tpot_s": "per token", "e2e_s": "to the end"}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@takes_engine
def engine(
    config: EngineConfig,
    requests: Annotated[int | None, typer.Option(help=f"A batch of so many. [default: {REQUESTS}]")] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help=f"Of each. [default: {PROMPT_TOKENS}]")] = None,
    output_tokens: Annotated[int | None, typer.Option(help=f"Of each. [default: {OUTPUT_TOKENS}]")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or a trace, in any known format, at its own times.")
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
    warmup: Annotated[
        bool, typer.Option("--warmup/--no-warmup", help="Serve two short requests first, which are not measured.")
    ] = True,
    steps: Annotated[
        str | None, typer.Option(metavar="FILE", help="A line of JSON for each step, the warm-up's included.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.bench.engine/1.")] = False,
) -> None:
    """Serve a load and measure: tokens a second, time to first token, time between tokens. It decodes greedily.

    Prompts are token ids that mean nothing. Those of a trace are made from its hash ids: equal ids, equal tokens.
    """
    batch = {"--requests": requests, "--prompt-tokens": prompt_tokens, "--output-tokens": output_tokens}
    options = reading.read_options(
        on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
    )
    _check(batch, trace, options)
    rows = None if trace is None else reading.read_with_progress(trace, options)[0]
    with one_line_errors():
        from pagesim.commands.engine_run import engine_with_steps
        from pagesim.validate.load import batch_load

        with engine_with_steps(config, steps) as made:
            size = (requests or REQUESTS, prompt_tokens or PROMPT_TOKENS, output_tokens or OUTPUT_TOKENS)
            vocab = made.model.config.vocab_size
            load = batch_load(*size, vocab, config.seed) if rows is None else _trace_load(rows, vocab, config.seed)
            report = _measure(made, load, size[0] if rows is None else len(rows), warmup)
    report = {"engine": asdict(config), "load": _load(trace, rows, size)} | report
    if as_json:
        from pagesim.sim.jsontext import dumps

        print(dumps({"schema": "pagesim.bench.engine/1"} | report))
    else:
        _show(report)


def _check(batch: dict[str, int | None], trace: Path | None, options: ReadOptions) -> None:
    """Raises UsageError."""
    for name, value in batch.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}; accepted: 1 or more")
    said = [name for name, value in batch.items() if value is not None]
    if trace is not None and said:
        raise UsageError(f"--trace and {said[0]} given; accepted: one of the two")
    if trace is None:
        reading.refuse_unread(options)


def _trace_load(trace: Trace, vocab_size: int, seed: int) -> Iterator[Arrival]:
    """The rows of a trace as arrivals. Where there are no hash ids, no two prompts share anything."""
    from pagesim.validate.load import Arrival
    from pagesim.validate.load_tokens import private_tokens, shared_tokens

    for row in range(len(trace)):
        size = int(trace.prompt_tokens[row])
        if trace.hash_ids is not None and trace.hash_block_tokens is not None:
            tokens = shared_tokens(trace.hash_ids[row], trace.hash_block_tokens, size, vocab_size)
        else:
            tokens = private_tokens(row, size, vocab_size, seed)
        yield Arrival(
            float(trace.arrival_s[row]),
            tokens,
            int(trace.output_tokens[row]),
            salt=None if trace.cache_salt is None else trace.cache_salt[row],
            adapter=None if trace.adapter is None else trace.adapter[row],
            n=1 if trace.n is None else int(trace.n[row]),
        )


def _measure(made: Engine, load: Any, num_requests: int, warmup: bool) -> dict[str, Any]:
    import torch

    from pagesim.sim.console import progress
    from pagesim.validate.load import run_load, warm_up

    if warmup:
        warm_up(made)
    before = made.scheduler.totals.as_dict()
    with progress("requests served", num_requests) as advance:
        log = run_load(made, load, advance)
    after = made.scheduler.totals.as_dict()
    peaks = ("peak_blocks_used", "peak_running")
    return {
        "attention": {"backend": made.backend.name, "description": made.backend.description},
        "started": made.report(),
        "threads": torch.get_num_threads(),
        "requests": log.requests,
        "rejected": log.rejected,
        "prompt_tokens": log.prompt_tokens,
        "output_tokens": log.output_tokens,
        "duration_s": log.duration_s,
        "output_tokens_per_s": log.output_tokens / log.duration_s,
        "tokens_per_s": (log.prompt_tokens + log.output_tokens) / log.duration_s,
        "requests_per_s": log.requests / log.duration_s,
        "latencies": {name: _distribution(getattr(log, name)) for name in LATENCIES},
        "scheduler": {name: value - (0 if name in peaks else before[name]) for name, value in after.items()},
    }


def _distribution(values: list[float]) -> dict[str, float] | None:
    """A quantile is the least value that at least that share stay under or reach. None without values."""
    import numpy as np

    if not values:
        return None
    quantiles = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf").tolist()
    return {"count": len(values), "mean": float(np.mean(values)), **dict(zip(QUANTILES, quantiles, strict=True))}


def _load(trace: Path | None, rows: Trace | None, size: tuple[int, int, int]) -> dict[str, Any]:
    if rows is not None:
        return {"trace": str(trace), "sha256": rows.sha256(), "requests": len(rows)}
    return dict(zip(("requests", "prompt_tokens", "output_tokens"), size, strict=True))


def _show(report: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    console = wide_console()
    console.print("\n".join(report["started"]))
    console.print(
        f"\n{report['requests']:,} requests in {report['duration_s']:,.2f} s on {report['threads']} threads: "
        f"{report['output_tokens_per_s']:,.1f} output tokens/s, {report['tokens_per_s']:,.1f} with prompts, "
        f"{report['requests_per_s']:,.2f} requests/s"
    )
    if report["rejected"]:
        console.print(f"{report['rejected']:,} rejected: prompt and output do not fit into max_model_len")
    table = Table(box=SIMPLE, pad_edge=False)
    for name in ("ms", "mean", *QUANTILES, "count"):
        table.add_column(name, justify="left" if name == "ms" else "right")
    for name, what in LATENCIES.items():
        if values := report["latencies"][name]:
            table.add_row(
                what, *(f"{1e3 * values[each]:,.2f}" for each in ("mean", *QUANTILES)), f"{values['count']:,}"
            )
    console.print(table)
    scheduler = report["scheduler"]
    console.print(
        f"{scheduler['steps']:,} steps, {scheduler['preemptions']:,} preemptions, "
        f"at most {scheduler['peak_running']:,} running and {scheduler['peak_blocks_used']:,} blocks used, "
        f"{scheduler['prefix_hits_first']:,} of {scheduler['prefix_queries_first']:,} tokens found in the prefix cache"
    )
