"""Rows for people: a table on a terminal, or in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from pagesim.sim.experiments.experiment import Experiment
from pagesim.sim.experiments.row import Row

HEAD = ("figure", "what", "published", "ours", "difference", "standing")


def number(value: float, unit: str) -> str:
    """Counts in full and rates rounded to one, shares in percent, mean batches to a hundredth, ratios to a thousandth,
    times to four digits."""
    if unit in ("", "tokens", "tokens/s"):
        return f"{value:,.0f}"
    if unit == "share":
        return f"{value:.1%}"
    if unit == "requests":
        return f"{value:,.2f}"
    return f"{value:.3f}" if unit == "ratio" else f"{value:.4g}"


def cells(row: Row) -> tuple[str, ...]:
    """The columns of HEAD."""
    unit = "" if row.unit in ("", "share", "ratio") else f" {row.unit}"
    published = "; ".join(number(value, row.unit) for value in row.published)
    return (
        row.figure,
        row.what,
        published + unit if published else "",
        number(row.ours, row.unit) + unit,
        _difference(row),
        row.standing.value,
    )


def _difference(row: Row) -> str:
    if row.published == (row.ours,):
        return "equal"
    return "" if row.difference is None else f"{row.difference:+.1%}".replace("-0.0%", "+0.0%")


def print_table(console: Console, experiment: Experiment, rows: Sequence[Row]) -> None:
    """One experiment: its table, what was assumed, and a remark for each row."""
    console.print(f"\n[bold]{experiment.name}[/bold]: {experiment.shows}", highlight=False)
    console.print(f"Assumed: {experiment.assumed}", highlight=False)
    table = Table(*HEAD)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    for row in rows:
        console.print(f"  {row.what}: {row.remark}", highlight=False)


def markdown(experiment: Experiment, rows: Sequence[Row]) -> str:
    """The same as a section of a document."""
    lines = [f"### {experiment.name}", "", experiment.shows, "", f"Assumed: {experiment.assumed}", ""]
    lines += [_line((*HEAD, "remark")), _line(["---"] * (len(HEAD) + 1))]
    lines += [_line((*cells(row), row.remark)) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
