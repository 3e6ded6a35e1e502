"""Carrying a sweep out: progress while it lasts, then a table or JSON, and a page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pagesim.commands.where import Where

if TYPE_CHECKING:
    from rich.console import Console

    from pagesim.sim.sweep.plan import Plan
    from pagesim.sim.sweep.result import SweepResult
    from pagesim.sim.sweep.sweep import Counts, Rest

PAGE = "sweep.html"
GAP = 3  # between columns
MOST_LINES = 40  # of the table in the terminal: all of them are in the dataset


def run_plan(plan: Plan, types: Mapping[str, type], where: Where, folder: Path, retry_failed: bool) -> SweepResult:
    """Run what is not in the folder yet, and write the dataset. Raises UsageError."""
    from pagesim.sim.sweep.dataset import FILE_NAME, columns, rows, write_dataset
    from pagesim.sim.sweep.journal import Journal
    from pagesim.sim.sweep.result import SweepResult
    from pagesim.sim.sweep.summary import summary, varied
    from pagesim.sim.sweep.sweep import Rest

    with Journal.opened(folder) as journal:
        counts = carry_on(Rest(plan, journal, retry_failed), where, folder, "points")
        path, names = folder / FILE_NAME, varied(plan)
        count = write_dataset(path, rows(plan, journal), columns(plan, types))
    lines = summary(path, names)
    first = plan.seeds.start
    return SweepResult(path, count, len(plan.variants), first, len(plan.seeds), counts, tuple(names), tuple(lines))


def carry_on(rest: Rest, where: Where, folder: Path, what: str) -> Counts:
    """Run what is not in the journal of `folder` yet, and say what that is."""
    from pagesim.sim.console import progress
    from pagesim.sim.sweep.sweep import carry_out

    skipped, total = rest.skipped, rest.plan.num_points
    print(f"{total - skipped:,} of {total:,} {what} to run, {skipped:,} skipped: done before", file=sys.stderr)
    try:
        with progress(f"{total - skipped:,} {what}", rest.requests) as advance:
            return carry_out(rest, where.workers(), advance)
    except KeyboardInterrupt:
        print(f"{rest.skipped:,} {what} are in {folder}; the same command goes on there", file=sys.stderr)
        raise


def hand_out(result: SweepResult, as_json: bool, no_html: bool, figure: Path | None) -> int:
    """Print it, write its page into its folder, and a figure; the exit status."""
    from pagesim.sim.jsontext import dumps

    if as_json:
        print(dumps(result.document()))
    else:
        _print(result)
    stream = sys.stderr if as_json else sys.stdout
    print(f"results: {result.dataset}, {result.rows:,} rows", file=stream)
    if not no_html:
        from pagesim.sim.sweep.page import sweep_page

        page = result.dataset.parent / PAGE
        sweep_page(result, shlex.join(["pagesim", *sys.argv[1:]])).write(page)
        print(f"report: {page}", file=stream)
    if figure is not None:
        from pagesim.sim.picture_file import write_picture
        from pagesim.sim.sweep.page import sweep_picture

        write_picture(sweep_picture(result), figure)
        print(f"figure: {figure}", file=stream)
    return 1 if result.counts.failed or result.nonsense else 0


def _print(result: SweepResult) -> None:
    from rich.console import Console

    from pagesim.sim.sweep.words import head, sentences, table_rows

    console = Console(highlight=False, markup=False, emoji=False)
    if rows := table_rows(result)[:MOST_LINES]:
        _print_table(console, head(result), rows, len(result.varied))
    if len(result.lines) > MOST_LINES:
        console.print(f"{len(result.lines) - MOST_LINES:,} more lines are in the results.")
    for sentence in sentences(result):
        console.print(f"- {sentence}")


def _print_table(console: Console, names: list[str], rows: list[list[str]], varied: int) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    shown = _fitting([names, *rows], varied + 2, console.width)
    table = Table(*names[:shown], box=SIMPLE, pad_edge=False)
    for k, column in enumerate(table.columns):
        column.no_wrap = True
        column.justify = "left" if k <= varied else "right"
    for row in rows:
        table.add_row(*row[:shown])
    console.print(table)
    if shown < len(names):
        console.print(f"Left out for want of room: {', '.join(names[shown:])}.")


def _fitting(rows: list[list[str]], least: int, width: int) -> int:
    """How many columns fit into a line, `least` at least."""
    widths = [max(len(row[k]) for row in rows) + GAP for k in range(len(rows[0]))]
    fitting = [count for count in range(1, len(widths) + 1) if sum(widths[:count]) <= width]
    return max(least, max(fitting, default=0))
