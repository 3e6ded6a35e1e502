"""The options of every command that reads a trace: declared once, with the defaults of `ReadOptions`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pagesim.sim.reading import ReadOptions

if TYPE_CHECKING:
    from pathlib import Path

    from pagesim.sim.reading import ReadReport
    from pagesim.sim.trace import Trace

DEFAULTS = ReadOptions()
PANEL = "How the trace is read"


def _option(*names: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=help, metavar=metavar, rich_help_panel=PANEL)
    return info


OnBadRow = Annotated[
    str, _option("--on-bad-row", metavar="stop|skip", help="The first bad row stops, or all are skipped.")
]
ZeroOutput = Annotated[
    str | None,
    _option(
        "--zero-output",
        metavar="drop|one|stop",
        help="Rows without an output token: dropped, taken as one, or bad. [default: drop for BurstGPT, else stop]",
    ),
]
Unsorted = Annotated[str, _option("--unsorted", metavar="sort|stop", help="Rows out of order are sorted, or an error.")]
Duplicates = Annotated[
    str, _option("--duplicates", metavar="keep|drop", help="Rows equal to an earlier one are kept, or dropped.")
]
JitterS = Annotated[
    float, _option("--jitter", metavar="SECONDS", help="Move every arrival later by its own draw from [0, SECONDS).")
]
JitterSeed = Annotated[int, _option("--jitter-seed", help="Seed of those draws.")]
HashBlockTokens = Annotated[
    int | None,
    _option(
        "--hash-block-tokens", help="Tokens a hash id stands for. [default: 512 for Mooncake, 16 for Qwen-Bailian]"
    ),
]
Start = Annotated[
    str | None,
    _option(
        "--start",
        metavar="zero|keep",
        help="The first arrival is moved to 0 s, or kept. [default: keep in our own format, else zero]",
    ),
]
Limit = Annotated[int | None, _option("--limit", metavar="N", help="Read the first N usable rows only.")]


def read_options(
    on_bad_row: str,
    zero_output: str | None,
    unsorted: str,
    duplicates: str,
    jitter_s: float,
    jitter_seed: int,
    hash_block_tokens: int | None,
    start: str | None,
    limit: int | None,
) -> ReadOptions:
    """The options as one value. Raises UsageError on a word or number that is not accepted."""
    words: Any = {"on_bad_row": on_bad_row, "zero_output": zero_output, "unsorted": unsorted, "duplicates": duplicates}
    return ReadOptions(
        **words,
        jitter_s=jitter_s,
        jitter_seed=jitter_seed,
        hash_block_tokens=hash_block_tokens,
        start=cast(Any, start),
        limit=limit,
    )


def refuse_unread(options: ReadOptions) -> None:
    """Raise UsageError if something is said of how a trace is read, where none is."""
    from pagesim.sim.errors import UsageError

    for field in fields(options):
        if getattr(options, field.name) != field.default:
            flag = field.name.removesuffix("_s").replace("_", "-")
            raise UsageError(f"--{flag} tells how a trace is read; accepted: together with --trace FILE")


def read_with_progress(path: Path, options: ReadOptions) -> tuple[Trace, ReadReport]:
    """Read a trace, showing progress, and say on stderr what was changed."""
    from pagesim.sim.console import progress
    from pagesim.sim.formats import read_trace

    with progress(f"reading {path.name}", path.stat().st_size if path.is_file() else None) as advance:
        trace, report = read_trace(path, options, advance)
    for sentence in report.sentences():
        typer.echo(f"{path}: {sentence}", err=True)
    return trace, report
