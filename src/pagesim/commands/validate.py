"""`pagesim validate`: predictions beside what was published, recorded or measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from pagesim.commands.validate_capacity import capacity
from pagesim.commands.validate_replay import replay
from pagesim.commands.validate_vllm import vllm
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.validate.note.row import NoteRow

MUCH = 9  # a difference of more is said as a multiple
app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def _group(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.validate/1.")] = False,
) -> None:
    """Predictions beside what was published, recorded or measured. Without a command: a short set of them.

    The set: every figure of the note, a replay at moderate load, the capacity probe, on the card if there is one. Exit
    status: 0 if all that was run agrees, 1 if something differs, 2 on wrong usage.
    """
    if context.invoked_subcommand is not None:
        if as_json:
            raise UsageError(f"--json before {context.invoked_subcommand}; accepted: behind it")
        return
    from pagesim.commands.validate_all import validate_all

    validate_all(as_json)


app.command()(replay)
app.command()(vllm)
app.command()(capacity)


@app.command()
def note(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.note/1.")] = False,
) -> None:
    """Every figure of the note beside ours: arithmetic, reproduced, predicted, fitted, or not explained, and why."""
    from pagesim.sim.console import progress
    from pagesim.sim.jsontext import dumps
    from pagesim.validate.note.rows import note_rows, num_requests

    with progress("requests simulated", num_requests()) as advance:
        rows = note_rows(advance)
    if as_json:
        print(dumps({"schema": "pagesim.note/1", "rows": [row.as_json() for row in rows]}))
    else:
        _show(rows)


def _show(rows: list[NoteRow]) -> None:
    from rich.console import Console

    from pagesim.validate.note.rows import note

    console = Console(highlight=False, markup=False)
    console.print(f"{note().note}\nmeasured on {note().measured_on}")
    last = None
    for row in rows:
        if row.id != last:
            console.print(f"\n{row.id}")
        published = "; ".join(_number(value, row.unit) for value in row.published)
        ours = _number(row.ours, row.unit)
        console.print(f"  {row.what}: {published}. Ours {ours}, {_difference(row)}: {row.standing.value}")
        last = row.id
    console.print()
    counts = Counter(row.standing.value for row in rows)
    console.print(f"{len(rows)} figures: " + ", ".join(f"{count} {standing}" for standing, count in counts.items()))
    console.print("\nNot explained:")
    for row in rows:
        if row.standing.value == "not explained":
            console.print(f"- {row.id}, {row.what}: {row.remark}")
    console.print("\nThe command that shows a row, and a remark on each, are in --json.")


def _number(value: float, unit: str) -> str:
    if value != value:
        return "-"
    if unit == "yes or no":
        return "yes" if value else "no"
    if unit == "share":
        return f"{value:.1%}"
    text = f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}" if unit not in ("", "ratio") else text


def _difference(row: NoteRow) -> str:
    if row.difference is None:
        return "-"
    if row.difference > MUCH:
        return f"{row.difference + 1:,.0f} times as much"
    return "equal" if row.published == (row.ours,) else f"{row.difference:+.1%}".replace("-0.0%", "+0.0%")
