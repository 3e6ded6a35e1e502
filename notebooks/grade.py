"""Runs a notebook, and grades one that a student has handed in, as nbgrader does: nothing but answers is taken over.

python notebooks/grade.py HANDED_IN.ipynb       points of each exercise; the lesson is told by its file name
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from build import FOLDER, SOLUTIONS
from nbclient import NotebookClient

LONGEST_CELL_S = 600
STARTUP_S = 300  # a kernel on a busy machine reads its libraries from a busy disk


@dataclass(frozen=True, slots=True)
class Mark:
    """What one test cell says: `points` of `most`, and the error if it failed."""

    name: str
    points: float
    most: float
    error: str | None


def execute(book: Any, folder: Path, go_on: bool = False) -> Any:
    """Run every cell in a kernel of its own, in `folder`; `go_on` past errors. Returns the notebook with outputs."""
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")  # figures as data, without a copy of plotly.js in each
    run = nbformat.from_dict(book)
    words: Any = {"timeout": LONGEST_CELL_S, "kernel_name": "python3", "allow_errors": go_on,
                  "startup_timeout": STARTUP_S}  # fmt: skip
    NotebookClient(run, resources={"metadata": {"path": str(folder)}}, **words).execute()
    return run


def merged(instructors: Any, handed_in: Any) -> Any:
    """The instructors' notebook with the answers of a student in place of the solutions.

    Raises ValueError if one of the answers is missing.
    """
    answers = {cell.metadata.nbgrader.grade_id: cell.source for cell in _graded(handed_in, "solution")}
    book = nbformat.from_dict(instructors)
    for cell in _graded(book, "solution"):
        name = cell.metadata.nbgrader.grade_id
        if name not in answers:
            raise ValueError(f"no cell '{name}' in what was handed in; accepted: every exercise, answered or not")
        cell.source = answers[name]
    return book


def marks(run: Any) -> list[Mark]:
    """The points of a notebook that was run past its errors."""
    return [_mark(cell) for cell in _graded(run, "grade")]


def _mark(cell: Any) -> Mark:
    said = cell.metadata.nbgrader
    errors = [f"{out.ename}: {out.evalue}" for out in cell.outputs if out.output_type == "error"]
    return Mark(said.grade_id, 0 if errors else said.points, said.points, errors[0] if errors else None)


def _graded(book: Any, kind: str) -> list[Any]:
    return [cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get(kind)]


def main() -> int:
    """Grade one file."""
    if len(sys.argv) != 2:
        print("usage: python notebooks/grade.py HANDED_IN.ipynb", file=sys.stderr)
        return 2
    path = Path(sys.argv[1])
    solutions = SOLUTIONS / path.name
    if not path.is_file() or not solutions.is_file():
        names = ", ".join(sorted(each.name for each in FOLDER.glob("*.ipynb")))
        print(f"error: {path}: not a lesson that was handed in; accepted: a file called {names}", file=sys.stderr)
        return 2
    try:
        book = merged(nbformat.read(solutions, 4), nbformat.read(path, 4))
    except (ValueError, nbformat.reader.NotJSONError) as error:
        print(f"error: {path}: {error}", file=sys.stderr)
        return 2
    found = marks(execute(book, path.parent, go_on=True))
    for mark in found:
        print(f"{mark.name:24} {mark.points:g} of {mark.most:g}{f'  {mark.error}' if mark.error else ''}")
    print(f"{'in all':24} {sum(mark.points for mark in found):g} of {sum(mark.most for mark in found):g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
