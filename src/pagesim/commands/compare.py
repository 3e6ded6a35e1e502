"""`pagesim compare`: two saved results, paired; what differs, and what may be noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagesim.commands.run_options import option

if TYPE_CHECKING:
    from pagesim.sim.compare import Comparison, Difference

LEGEND = (
    "± is half of the 95% interval of the paired differences. clear: stands Holm's test over all figures at 5%; "
    "perhaps: its interval is without 0, but so may be one of so many by chance; noise: 0 is in the interval; same: "
    "equal in every pair."
)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A folder that `pagesim run --out` wrote, or its run.json.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    as_json: Annotated[bool, option("--json", help="Print JSON, schema pagesim.compare/1.")] = False,
) -> None:
    """Say what differs between two saved results, by how much, and what may be noise."""
    from pagesim.sim.compare import compare as compared
    from pagesim.sim.jsontext import dumps

    found = compared(a, b)
    if as_json:
        print(dumps(found.document()))
    else:
        _print(found)


def _print(found: Comparison) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    for name, (left, right) in found.changed.items():
        console.print(f"{name}: {left} -> {right}")
    if not found.changed:
        console.print("the same configuration")
    for allocator in dict.fromkeys(each.allocator for each in found.differences):
        table = Table(allocator, "A", "B", "B - A", "", box=SIMPLE, pad_edge=False)
        for column in table.columns[1:4]:
            column.justify = "right"
        for each in found.differences:
            if each.allocator == allocator:
                table.add_row(*_row(each))
        console.print(table)
    console.print(f"- {_pairs(found)}")
    if found.pairs > 1:
        console.print(f"\n{LEGEND}")


def _row(each: Difference) -> list[str]:
    half = "" if each.difference.half is None else f" ± {each.difference.half:.2g}"
    return [each.figure, f"{each.a:.4g}", f"{each.b:.4g}", f"{each.difference.mean:+.3g}{half}", each.verdict.value]


def _pairs(found: Comparison) -> str:
    if found.pairs == 1:
        return "One run each: nothing can be told from noise. `pagesim run --runs 5` makes five."
    seen = "the same requests" if found.same_requests else "other requests, or at other times, in each pair"
    return f"{found.pairs} pairs of runs: {seen}."
