"""What a notebook shows of a result, beside its figures: the table that the command and the report show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pagesim.sim.result import RunResult
from pagesim.sim.serving.result import ServingResult

CELL = Markup('<td style="text-align:{}; white-space:pre">{}</td>')


@dataclass(frozen=True, slots=True)
class Table:
    """`names` over the columns, then a label and its cells in each row; `sentences` under it."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    sentences: Sequence[str]

    def __repr__(self) -> str:
        whole = [["", *self.names], *map(list, self.rows)]
        wide = [max(len(row[k]) for row in whole) for k in range(len(whole[0]))]
        lines = ["  ".join([row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])]) for row in whole]
        return "\n".join([*lines, *(f"- {sentence}" for sentence in self.sentences)])

    def _repr_html_(self) -> str:
        rows = [["", *self.names], *self.rows]
        lines = [
            Markup("").join([CELL.format("left", row[0]), *(CELL.format("right", c) for c in row[1:])]) for row in rows
        ]
        body = Markup("").join(Markup("<tr>{}</tr>").format(line) for line in lines)
        said = Markup("").join(Markup("<li>{}</li>").format(sentence) for sentence in self.sentences)
        return str(Markup("<table>{}</table><ul>{}</ul>").format(body, said))


def table(result: RunResult | ServingResult) -> Table:
    """The figures of a run, a column for each allocator, and what they say in words."""
    if isinstance(result, RunResult):
        from pagesim.sim.run_table import shown as of_run

        shown = of_run(result)
    else:
        from pagesim.sim.serving.summary import shown as of_serving

        shown = of_serving(result)
    warning = [] if shown.warning is None else [shown.warning]
    return Table(list(result.allocators), shown.rows, [*warning, *shown.sentences])
