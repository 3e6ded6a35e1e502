"""`pagesim calibrate`: how long steps take, measured on the engine or read from a CSV, as a profile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagesim.commands.engine_options import may_take_engine
from pagesim.commands.kernel import one_line_errors, wide_console
from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.serving.steptime import LinearStep
    from pagesim.validate.calibrate.calibration import Calibration
    from pagesim.validate.calibrate.shape import BatchTime

PROFILE = Path("pagesim-profile.json")
REPEATS = 5
EXAMPLE_TOKENS = 256


@may_take_engine
def calibrate(
    config: EngineConfig | None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Rows of batch and time, in place of an engine.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the profile goes.")] = PROFILE,
    rows: Annotated[
        Path | None, typer.Option("--rows", metavar="FILE", help="The measured rows too, as --csv reads them.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the profile is called. [default: its file]")] = None,
    repeats: Annotated[
        int | None, typer.Option(help=f"Times that each batch is measured; medians count. [default: {REPEATS}]")
    ] = None,
    sequences: Annotated[
        int | None, typer.Option(help="Most at once. [default: 64, or as the engine has fewer]")
    ] = None,
    longest: Annotated[
        int | None, typer.Option(help="Tokens of the longest sequence. [default: 1024, or as the engine has fewer]")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Of torch. [default: 1 for a small model, else torch's own choice]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.calibration/1.")] = False,
) -> None:
    """Fit the step-time model to batches timed on the engine, test it on others, and write a profile.

    `pagesim run --on-full queue --step-time FILE` takes it. A quiet machine measures best.
    """
    from pagesim.sim.files import check_apart, check_writable

    _check_threads(threads)
    _check(config, csv, {"--repeats": repeats, "--sequences": sequences, "--longest": longest, "--threads": threads})
    if csv is not None and rows is not None:
        raise UsageError("--csv and --rows given: the rows are there already; accepted: one of the two")
    check_apart(csv, out, rows)
    for path in (out, rows):
        if path is not None:
            check_writable(path)
    with one_line_errors():
        if config is None:
            from pagesim.validate.calibrate.source import from_file

            assert csv is not None
            found = from_file(csv)
        else:
            found = _measure(config, repeats or REPEATS, sequences, longest, threads, rows)
    _hand_out(found, out, name or out.stem, as_json)


def _check(config: EngineConfig | None, csv: Path | None, numbers: dict[str, int | None]) -> None:
    """Raises UsageError."""
    if (config is None) == (csv is None):
        given = "neither --model nor --csv" if csv is None else "--model and --csv"
        raise UsageError(f"{given} given; accepted: one of the two")
    for flag, value in numbers.items():
        if value is not None and value < 1:
            raise UsageError(f"{flag} {value}; accepted: 1 or more")
        if value is not None and csv is not None:
            raise UsageError(f"{flag} and --csv given, where nothing is measured; accepted: one of the two")


def _check_threads(threads: int | None) -> None:
    """More than processors wait for each other, and of very many torch crashes. Raises UsageError."""
    most = os.cpu_count() or 1
    if threads is not None and threads > most:
        raise UsageError(f"--threads {threads}; accepted: 1 to {most}, as this machine has processors")


def _measure(
    config: EngineConfig,
    repeats: int,
    sequences: int | None,
    longest: int | None,
    threads: int | None,
    rows: Path | None,
) -> Calibration:
    """`rows`: where they go, before they are fitted."""
    from pagesim.engine.engine import Engine
    from pagesim.sim.console import progress
    from pagesim.validate.calibrate.design import loads
    from pagesim.validate.calibrate.rows_csv import write_rows
    from pagesim.validate.calibrate.source import from_engine, reach_of
    from pagesim.validate.calibrate.threads import threads as with_threads
    from pagesim.validate.calibrate.timing import Timer

    def keep(times: list[BatchTime]) -> None:
        if rows is not None:
            write_rows(rows, times)

    timer = Timer()
    engine = Engine(config, on_step=timer.note)
    reach = reach_of(engine, sequences, longest)
    with with_threads(engine, threads), progress("loads timed", repeats * len(loads(reach))) as advance:
        return from_engine(engine, timer, reach, repeats, advance, keep)[0]


def _hand_out(found: Calibration, out: Path, name: str, as_json: bool) -> None:
    from pagesim.sim.jsontext import dumps
    from pagesim.validate.calibrate.calibration import write_profile

    write_profile(found.profile(name), out)
    if as_json:
        print(dumps(found.document(out)))
    else:
        _show(found)
        print(f"profile: {out}")


def _show(found: Calibration) -> None:
    from dataclasses import asdict, replace

    from rich.box import SIMPLE
    from rich.table import Table

    from pagesim.sim.experiments.profile import SPLIT_FORM

    console = wide_console()
    console.print(f"{found.measured_on}\n{found.source}\n\n{SPLIT_FORM}")
    curve = found.step_time.curve or ()
    for name, value in asdict(replace(found.step_time, curve=None)).items():
        if value is not None:
            console.print(f"  {name:15}{value:.4g}")
    if curve:
        in_s = ", ".join(f"{tokens:,} tokens {seconds:.4g}" for tokens, seconds in curve)
        console.print(f"  {'curve':15}{in_s}")
    console.print(f"\n{_examples(found.step_time)}")
    columns = ("", "batches", "R^2", "all off by", "one off by, median", "nine of ten within")
    table = Table(*columns, box=SIMPLE, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for part, left in (
        ("fitted on", found.fitted),
        ("held out", found.held_out),
        ("  in the T4's form", found.one_price),
    ):
        if left is None:
            table.add_row(part, "-", "-", "-", "-", "-")
            continue
        r2 = "-" if left.r2 is None else f"{left.r2:.4f}"
        table.add_row(
            part, f"{left.rows:,}", r2, f"{left.total:+.1%}", f"{left.median_error:.1%}", f"{left.p90_error:.1%}"
        )
    console.print(table)
    console.print("Off by: modelled time over measured, less 1; all: of the batches together.")
    if found.noise is not None:
        console.print(found.noise.words)


def _examples(step_time: LinearStep) -> str:
    """What the coefficients come to: a few steps that a reader can judge."""
    from pagesim.sim.serving.steptime import pairs

    decodes = "; ".join(
        f"of {count}, {1e3 * step_time.seconds(count, 0, count * EXAMPLE_TOKENS, count):.4g} ms" for count in (1, 4, 16)
    )
    prompt_s = step_time.seconds(EXAMPLE_TOKENS, pairs(0, EXAMPLE_TOKENS), 0, 1)
    return (
        f"By this a step takes, of decodes with {EXAMPLE_TOKENS} tokens of context each: {decodes}; "
        f"of one prompt of {EXAMPLE_TOKENS} tokens: {1e3 * prompt_s:.4g} ms."
    )
