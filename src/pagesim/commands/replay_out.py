"""What `pagesim validate replay` hands out: the table or JSON, and the page."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from pagesim.validate.realtime.result import TimeComparison
    from pagesim.validate.replay.result import ReplayResult


def hand_out(result: ReplayResult, page: Path | None, as_json: bool) -> None:
    """JSON or the table to stdout, and the page if one is wanted."""
    from pagesim.sim.jsontext import dumps

    if page is not None:
        from pagesim.validate.replay.report import write_report

        write_report(result, page, shlex.join(["pagesim", *sys.argv[1:]]))
    if as_json:
        print(dumps(result.document()))
    else:
        _print(result)
    if page is not None:
        print(f"report: {page}", file=sys.stderr if as_json else sys.stdout)


def _print(result: ReplayResult) -> None:
    from pagesim.commands.kernel import wide_console
    from pagesim.validate.replay import words

    console = wide_console()
    console.print(result.source)
    console.print(table_of(words.table(result)))
    if result.time is not None:
        _print_times(result.time)
    for line in (*words.findings(result), *words.divergence(result)):
        console.print(line, soft_wrap=True)
    console.print(words.verdict(result))
    for line in words.not_compared(result):
        console.print(line)


def _print_times(time: TimeComparison) -> None:
    from pagesim.commands.kernel import wide_console
    from pagesim.validate.realtime import words

    console = wide_console()
    for line in words.sentences(time):
        console.print(line)
    console.print(table_of(words.table(time)))


def table_of(lines: list[list[str]]) -> Table:
    """The first line is the head; all but the first column are numbers."""
    from rich.box import SIMPLE
    from rich.table import Table

    head, *rows = lines
    table = Table(*head, box=SIMPLE, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table
