"""`pagesim trace generate`: draw a trace and write it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pagesim.commands import run_options as o
from pagesim.sim.config import RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError

DEFAULT = RunConfig()
DRAWN = WorkloadConfig()


def generate(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .jsonl, .jsonl.gz or .parquet.")],
    load: Annotated[
        str | None,
        typer.Option(metavar="moderate|high|X", help="The rate that offers this load to the pool of `pagesim run`."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Or requests a second. [default: a ServeGen file's own]")] = None,
    requests: o.Requests = DRAWN.num_requests,
    duration: Annotated[float | None, typer.Option(help="Or as many as arrive in so many seconds.")] = None,
    arrivals: o.Arrivals = DRAWN.arrivals,
    lengths: o.Lengths = DRAWN.lengths,
    prompt_share: o.PromptShare = DRAWN.prompt_share,
    prompt_lengths: o.PromptLengths = DRAWN.prompt_lengths,
    output_lengths: o.OutputLengths = DRAWN.output_lengths,
    truncate: o.Truncate = DRAWN.truncation,
    max_model_len: o.MaxModelLen = DEFAULT.max_model_len,
    prefixes: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT:TOKENS", help="One of COUNT texts of TOKENS in front of each prompt, with hash ids."
        ),
    ] = None,
    seed: o.Seed = DEFAULT.seed,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.trace-generate/1.")] = False,
) -> None:
    """Draw a trace: arrivals, prompts and outputs, each from a random stream of its own.

    With --load and --seed it is the first trace of `pagesim run` with the same options. Prefixes come on top of the
    lengths, and of a load.
    """
    from pagesim.sim.drawing import Drawn, draw_at_rate, request_lengths
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.own_format import check_ending, write_trace
    from pagesim.sim.prefixes import parse_prefixes

    texts = None if prefixes is None else parse_prefixes(prefixes)
    check_ending(target)
    if load is not None and rate is not None:
        raise UsageError("--load and --rate given; accepted: one of the two")
    if duration is not None and (requests is not None or load is not None):
        raise UsageError(f"--duration and --{'requests' if load is None else 'load'} given; accepted: one of the two")
    truncation: Any = truncate
    workload = WorkloadConfig(
        arrivals, lengths, prompt_share, prompt_lengths, output_lengths, truncation, num_requests=requests
    )
    config = RunConfig(load=load or DEFAULT.load, workload=workload, max_model_len=max_model_len, seed=seed)
    if load is not None:
        trace = next(Drawn(config).traces())
    else:
        trace = draw_at_rate(workload, max_model_len, seed, rate, duration)
    if texts is not None:
        trace = texts.in_front(trace, seed)
    write_trace(trace, target)
    answer = {
        "schema": "pagesim.trace-generate/1",
        "target": str(target),
        "requests": len(trace),
        "span_s": trace.span_s,
        "arrivals": arrivals,
        "lengths": request_lengths(workload, max_model_len).label,
        "prefixes": prefixes,
        "seed": seed,
        "sha256": trace.sha256(),
    }
    words = f"{target}: {len(trace):,} requests over {trace.span_s:,.6g} s, {answer['lengths']}"
    print(dumps(answer) if as_json else f"{words}; content sha256 {answer['sha256']}")
