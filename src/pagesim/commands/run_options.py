"""The options of `pagesim run`, by what they are about: the pool, what is drawn, how it is run, what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagesim.sim.config import DEFAULT_ALLOCATORS

REPORT = Path("pagesim-run.html")
ALL = "all"


def _option(*names: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=help, metavar=metavar)
    return info


Load = Annotated[
    str | None,
    _option(
        "--load",
        metavar="moderate|high|X",
        help="A preset, or X times the pool in tokens. With --trace its times are scaled. [default: high]",
    ),
]
TraceFile = Annotated[Path | None, _option("--trace", metavar="FILE", help="A trace, at its own times.")]
Scenario = Annotated[
    str | None,
    _option(
        "--scenario",
        metavar="NAME|FILE",
        help="Serving instead, by vLLM's rules: an experiment of the note (starved, unstarved, starved-cached, "
        "quarter-pool, shared-prefix, cold-warm, n8, salts, thrash), or a recording of its scheduler.",
    ),
]
Steps = Annotated[
    Path | None, _option("--steps", metavar="FILE", help="With --scenario: a line of JSON for each step.")
]
Allocators = Annotated[
    str,
    _option(
        "--allocators",
        "--allocator",
        metavar="A,B,...",
        help="reservation, exact-fit[:first|best|next|worst[:compact]], buddy, paged, my_module:MyAllocator; or all.",
    ),
]
DEFAULT_NAMES = ",".join(DEFAULT_ALLOCATORS)

PoolTokens = Annotated[int | None, _option("--pool-tokens", help="The pool's token slots. [default: 929024]")]
NumBlocks = Annotated[int | None, _option("--num-blocks", help="Or its blocks.")]
Model = Annotated[str | None, _option("--model", help="Or what a card leaves beside a model: its name or config.json")]
Device = Annotated[str | None, _option("--device", help="on this card, like t4 or h100,")]
Utilization = Annotated[
    float | None, _option("--utilization", help="of which this part may be used. [default: 0.92, vLLM's]")
]
TensorParallel = Annotated[int | None, _option("--tp", help="Tensor-parallel cards that share it. [default: 1]")]
BlockSize = Annotated[int, _option("--block-size", help="Tokens in a block.")]
MaxModelLen = Annotated[int, _option("--max-model-len", help="Longest sequence, prompt and output, tokens.")]

Arrivals = Annotated[
    str,
    _option("--arrivals", help="poisson, gamma:CV, on-off:ON_S:OFF_S, periodic, batch:SIZE or servegen:FILE."),
]
Lengths = Annotated[
    str,
    _option(
        "--lengths",
        help="Of prompt and output together: lognormal:MEAN:MEDIAN, uniform:LOW:HIGH, fixed:TOKENS; or file:TRACE, "
        "pairs drawn out of a trace or a list.",
    ),
]
PromptShare = Annotated[float, _option("--prompt-share", help="The part of it that is prompt.")]
PromptLengths = Annotated[str | None, _option("--prompt-lengths", help="Or of prompts by themselves ...")]
OutputLengths = Annotated[str | None, _option("--output-lengths", help="... and of outputs.")]
Truncate = Annotated[
    str, _option("--truncate", metavar="clip|resample", help="What becomes of a lognormal past --max-model-len.")
]
Requests = Annotated[
    int | None, _option("--requests", help="How many. [default: as many as arrive in 17 mean residences]")
]
Seed = Annotated[int, _option("--seed", help="Of everything that is drawn.")]

OnFull = Annotated[str, _option("--on-full", metavar="refuse", help="What becomes of a request that finds no room.")]
Growth = Annotated[
    str,
    _option("--growth", metavar="final|token", help="All tokens count from admission, or the output one at a time."),
]
Residence = Annotated[
    str | None,
    _option(
        "--residence",
        metavar="total|decode",
        help="How long a request stays: proportional to its total length, or its output at --decode-rate. "
        "[default: total; with --trace, decode]",
    ),
]
MeanResidence = Annotated[float | None, _option("--mean-residence", help="The mean of total, seconds. [default: 1]")]
DecodeRate = Annotated[float | None, _option("--decode-rate", help="Tokens a second of decode. [default: 25]")]
Warmup = Annotated[float, _option("--warmup", help="Part of the time that is left out of all figures.")]
NumRuns = Annotated[
    int | None, _option("--runs", help="Independent replications, for the intervals. [default: 5; with --trace, 1]")
]
Check = Annotated[bool, _option("--check", help="Assert the account of the pool as it goes: slower.")]

AsJson = Annotated[bool, _option("--json", help="Print JSON, schema pagesim.run/1.")]
Html = Annotated[
    Path | None,
    _option("--html", metavar="FILE", help=f"Where the report goes. [default: {REPORT}; with --json, nowhere]"),
]
NoHtml = Annotated[bool, _option("--no-html", help="Write no report.")]
Out = Annotated[Path | None, _option("--out", metavar="FOLDER", help="Save the result there, as run.json.")]
