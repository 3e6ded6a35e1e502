"""The options of `pagesim run`, by what they are about: the pool, what is drawn, how it is run, what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagesim.sim.config import DEFAULT_ALLOCATORS

REPORT = Path("pagesim-run.html")
ALL = "all"


def option(*names: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    """An option of the command line."""
    info: typer.models.OptionInfo = typer.Option(*names, help=help, metavar=metavar)
    return info


Load = Annotated[
    str | None,
    option(
        "--load",
        metavar="moderate|high|X",
        help="A preset, or X times the pool in tokens. With --trace its times are scaled. [default: high]",
    ),
]
Rate = Annotated[float | None, option("--rate", help="Or so many requests a second.")]
TraceFile = Annotated[Path | None, option("--trace", metavar="FILE", help="A trace, at its own times.")]
Scenario = Annotated[
    str | None,
    option(
        "--scenario",
        metavar="NAME|FILE",
        help="Serving instead, by vLLM's rules: an experiment of the note (starved, unstarved, starved-cached, "
        "quarter-pool, shared-prefix, cold-warm, n8, salts, thrash), of the PagedAttention paper (paper-sharegpt, "
        "paper-alpaca), or a recording of its scheduler.",
    ),
]
Steps = Annotated[
    Path | None,
    option(
        "--steps",
        metavar="FILE",
        help="A line of JSON for each step of the scheduler: of a --scenario, or of one allocator in one run.",
    ),
]
Allocators = Annotated[
    str,
    option(
        "--allocators",
        "--allocator",
        metavar="A,B,...",
        help="reservation, exact-fit[:first|best|next|worst[:compact]], buddy, paged, my_module:MyAllocator; or all.",
    ),
]
DEFAULT_NAMES = ",".join(DEFAULT_ALLOCATORS)

PoolTokens = Annotated[int | None, option("--pool-tokens", help="The pool's token slots. [default: 929024]")]
NumBlocks = Annotated[int | None, option("--num-blocks", help="Or its blocks.")]
Model = Annotated[str | None, option("--model", help="Or what a card leaves beside a model: its name or config.json")]
Device = Annotated[str | None, option("--device", help="on this card, like t4 or h100,")]
Utilization = Annotated[
    float | None, option("--utilization", help="of which this part may be used. [default: 0.92, vLLM's]")
]
TensorParallel = Annotated[int | None, option("--tp", help="Tensor-parallel cards that share it. [default: 1]")]
BlockSize = Annotated[int, option("--block-size", help="Tokens in a block.")]
MaxModelLen = Annotated[int, option("--max-model-len", help="Longest sequence, prompt and output, tokens.")]

Arrivals = Annotated[
    str,
    option("--arrivals", help="poisson, gamma:CV, on-off:ON_S:OFF_S, periodic, batch:SIZE or servegen:FILE."),
]
Lengths = Annotated[
    str,
    option(
        "--lengths",
        help="Of prompt and output together: lognormal:MEAN:MEDIAN, uniform:LOW:HIGH, fixed:TOKENS; or file:TRACE, "
        "pairs drawn out of a trace or a list.",
    ),
]
PromptShare = Annotated[float, option("--prompt-share", help="The part of it that is prompt.")]
PromptLengths = Annotated[str | None, option("--prompt-lengths", help="Or of prompts by themselves ...")]
OutputLengths = Annotated[str | None, option("--output-lengths", help="... and of outputs.")]
Truncate = Annotated[
    str, option("--truncate", metavar="clip|resample", help="What becomes of a lognormal past --max-model-len.")
]
Requests = Annotated[
    int | None, option("--requests", help="How many. [default: as many as arrive in 17 mean residences]")
]
Seed = Annotated[int, option("--seed", help="Of everything that is drawn.")]

OnFull = Annotated[
    str,
    option("--on-full", metavar="refuse|queue", help="A request that finds no room is lost, or waits and is served."),
]
Growth = Annotated[
    str,
    option("--growth", metavar="final|token", help="All tokens count from admission, or the output one at a time."),
]
Residence = Annotated[
    str | None,
    option(
        "--residence",
        metavar="total|decode",
        help="How long a request stays: proportional to its total length, or its output at --decode-rate. "
        "[default: total; with --trace, decode]",
    ),
]
MeanResidence = Annotated[float | None, option("--mean-residence", help="The mean of total, seconds. [default: 1]")]
DecodeRate = Annotated[float | None, option("--decode-rate", help="Tokens a second of decode. [default: 25]")]
Warmup = Annotated[float, option("--warmup", help="Part of the time that is left out of all figures.")]
NumRuns = Annotated[
    int | None, option("--runs", help="Independent replications, for the intervals. [default: 5; with --trace, 1]")
]
Check = Annotated[bool, option("--check", help="Assert the account of the pool as it goes: slower.")]

AsJson = Annotated[bool, option("--json", help="Print JSON, schema pagesim.run/1.")]
Html = Annotated[
    Path | None,
    option(
        "--html", metavar="FILE", help=f"Where the report goes. [default: {REPORT}; with --json or --scenario, nowhere]"
    ),
]
NoHtml = Annotated[bool, option("--no-html", help="Write no report.")]
MapFrames = Annotated[
    int | None,
    option("--map-frames", help="Moments of the pool that the report can play, 0 for none. [default: 1000]"),
]
MapFrom = Annotated[
    float | None,
    option(
        "--map-from", metavar="SECONDS", help="Where they begin. [default: around the first refusal, or preemption]"
    ),
]
Out = Annotated[Path | None, option("--out", metavar="FOLDER", help="Save the result there, as run.json.")]
