"""`pagesim trace`: look at a trace, bring it into our format, fetch a public one.

A command in a file of its own joins by `@app.command()` on this `app`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pagesim.commands import reading
from pagesim.commands.reading import DEFAULTS

app = typer.Typer(
    help="Look at, convert, generate and fetch request traces.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def info(
    files: Annotated[list[Path], typer.Argument(help="Traces, in any format that is known.")],
    on_bad_row: reading.OnBadRow = DEFAULTS.on_bad_row,
    zero_output: reading.ZeroOutput = DEFAULTS.zero_output,
    unsorted: reading.Unsorted = DEFAULTS.unsorted,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    jitter: reading.JitterS = DEFAULTS.jitter_s,
    jitter_seed: reading.JitterSeed = DEFAULTS.jitter_seed,
    hash_block_tokens: reading.HashBlockTokens = DEFAULTS.hash_block_tokens,
    start: reading.Start = DEFAULTS.start,
    limit: reading.Limit = DEFAULTS.limit,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.trace-info/1.")] = False,
) -> None:
    """Say what a trace holds: requests, rate, lengths, shared prompts, sessions, and what was changed to read it."""
    from pagesim.commands.trace_tables import show_info
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.trace_info import trace_info

    options = reading.read_options(
        on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
    )
    answers = []
    for path in files:
        trace, report = reading.read_with_progress(path, options)
        answers.append(trace_info(path, trace, report))
    if as_json:
        print(dumps({"schema": "pagesim.trace-info/1", "traces": answers}))
    else:
        show_info(answers)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A trace, in any format that is known.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .jsonl, .jsonl.gz or .parquet.")],
    on_bad_row: reading.OnBadRow = DEFAULTS.on_bad_row,
    zero_output: reading.ZeroOutput = DEFAULTS.zero_output,
    unsorted: reading.Unsorted = DEFAULTS.unsorted,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    jitter: reading.JitterS = DEFAULTS.jitter_s,
    jitter_seed: reading.JitterSeed = DEFAULTS.jitter_seed,
    hash_block_tokens: reading.HashBlockTokens = DEFAULTS.hash_block_tokens,
    start: reading.Start = DEFAULTS.start,
    limit: reading.Limit = DEFAULTS.limit,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.trace-convert/1.")] = False,
) -> None:
    """Write a trace in our own format, which holds everything a trace can hold. OUT's ending says which of the two."""
    from pagesim.sim.files import check_writable
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.own_format import check_ending, write_trace

    options = reading.read_options(
        on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
    )
    check_ending(target)
    check_writable(target)
    trace, report = reading.read_with_progress(source, options)
    write_trace(trace, target)
    answer = {
        "schema": "pagesim.trace-convert/1",
        "source": str(source),
        "target": str(target),
        "requests": len(trace),
        "sha256": trace.sha256(),
        "reading": report.as_dict(),
    }
    print(dumps(answer) if as_json else f"{target}: {len(trace):,} requests, content sha256 {answer['sha256']}")


@app.command()
def fetch(
    name: Annotated[str | None, typer.Argument(help="A public trace; without one, they are listed.")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the public traces.")] = False,
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="[default: the user's cache folder]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.trace-fetch/1.")] = False,
) -> None:
    """Download a public trace from its project's own address and check that it is the file that was meant."""
    from pagesim.commands.trace_tables import show_public
    from pagesim.sim import fetch as fetching
    from pagesim.sim.console import progress
    from pagesim.sim.jsontext import dumps

    if name is None or list_them:
        known = [_public(trace) for trace in fetching.public_traces().values()]
        if as_json:
            print(dumps({"schema": "pagesim.trace-list/1", "traces": known}))
        else:
            show_public(known)
        return
    trace = fetching.find_public_trace(name)
    with progress(f"fetching {name}", trace.size_bytes) as advance:
        path, fetched = fetching.fetch(trace, to or fetching.cache_folder(), advance)
    if as_json:
        print(dumps({"schema": "pagesim.trace-fetch/1", **_public(trace), "path": str(path), "fetched": fetched}))
    else:
        typer.echo(f"{name}: {trace.license}, {'fetched' if fetched else 'was there already'}", err=True)
        print(path)


def _public(trace: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(trace)
