"""Runs a notebook, and grades one that a student has handed in, as nbgrader does: nothing but answers is taken over.

Answers and tests run in one kernel, as they do there. What a cell's reply says counts, not only what it shows; still,
an answer that is bent on it can change what is tested: whoever gives marks reads the answers too.

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
from nbclient.exceptions import DeadKernelError

LONGEST_CELL_S = 600
TOO_LONG = "TooLong"  # what the error of a cell is called that was stopped
STARTUP_S = 300  # a kernel on a busy machine reads its libraries from a busy disk


@dataclass(frozen=True, slots=True)
class Mark:
    """What one test cell says: `points` of `most`, and the error if it failed."""

    name: str
    points: float
    most: float
    error: str | None


def execute(book: Any, folder: Path, go_on: bool = False) -> Any:
    """Run every cell in a kernel of its own, in `folder`; `go_on` past errors. Returns the notebook with outputs.

    Whoever goes on also goes past a cell that takes too long, which is an error of that cell, and finds an error in
    every cell that was not run because the kernel had ended, or did not answer any more.
    """
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")  # figures as data, without a copy of plotly.js in each
    run = nbformat.from_dict(book)
    words: Any = {"timeout": LONGEST_CELL_S, "kernel_name": "python3", "allow_errors": go_on,
                  "startup_timeout": STARTUP_S}  # fmt: skip
    resources = {"metadata": {"path": str(folder)}}
    if not go_on:
        NotebookClient(run, resources=resources, **words).execute()
        return run
    replies = _Replies()
    late = {"ename": TOO_LONG, "evalue": f"stopped after {LONGEST_CELL_S} s", "traceback": []}
    words |= {"interrupt_on_timeout": True, "error_on_timeout": late, "on_cell_executed": replies.told}
    try:
        NotebookClient(run, resources=resources, **words).execute()
    except DeadKernelError as error:
        for number, cell in enumerate(run.cells):
            if cell.cell_type == "code" and number not in replies.ended:
                cell.outputs.append(_error("NotRun", f"{error} here, or in a cell before this"))
    return run


class _Replies:
    """What the kernel replied to each cell: an error that the cell does not show is shown."""

    def __init__(self) -> None:
        self.ended: set[int] = set()  # cells that were run, whatever became of them
        self._late = 0  # cells in a row that took too long

    def told(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        """Of one cell. Raises DeadKernelError on the second in a row that takes too long."""
        said = execute_reply["content"]
        too_long = said.get("ename") == TOO_LONG
        self.ended.add(cell_index)
        self._late = self._late + 1 if too_long else 0
        shown = any(out.output_type == "error" for out in cell.outputs)
        if said["status"] != "ok" and (too_long or not shown):
            cell.outputs.append(_error(said.get("ename", "Error"), said.get("evalue", "")))
        if self._late > 1:
            raise DeadKernelError("Kernel did not answer")


def _error(name: str, text: str) -> Any:
    return nbformat.v4.new_output("error", ename=name, evalue=text, traceback=[])


def handed_in(path: Path) -> Any:
    """The notebook of a student. Raises ValueError if it is none."""
    try:
        return nbformat.read(path, 4)
    except Exception as error:  # JSON of another shape: of whichever type
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"not a notebook ({reason[:200]})") from error


def merged(instructors: Any, handed_in: Any) -> Any:
    """The instructors' notebook with the answers of a student in place of the solutions.

    Raises ValueError if one of the answers is missing, or there twice.
    """
    found = [(_nbgrader(cell).get("grade_id"), cell.source) for cell in _graded(handed_in, "solution")]
    book = nbformat.from_dict(instructors)
    for cell in _graded(book, "solution"):
        name = cell.metadata.nbgrader.grade_id
        answers = [text for said, text in found if said == name]
        if not answers:
            raise ValueError(f"no cell '{name}' in what was handed in; accepted: every exercise, answered or not")
        if len(answers) > 1:
            raise ValueError(f"{len(answers)} cells '{name}' in what was handed in; accepted: one of each exercise")
        if not isinstance(answers[0], str):
            raise ValueError(f"cell '{name}' is no text in what was handed in; accepted: every exercise, as text")
        cell.source = answers[0]
    return book


def marks(run: Any) -> list[Mark]:
    """The points of a notebook that was run past its errors."""
    return [_mark(cell) for cell in _graded(run, "grade")]


def _mark(cell: Any) -> Mark:
    said = cell.metadata.nbgrader
    errors = [
        " ".join(f"{out.ename}: {out.evalue}".split())[:200] for out in cell.outputs if out.output_type == "error"
    ]
    return Mark(said.grade_id, 0 if errors else said.points, said.points, errors[0] if errors else None)


def _graded(book: Any, kind: str) -> list[Any]:
    return [cell for cell in book.cells if _nbgrader(cell).get(kind)]


def _nbgrader(cell: Any) -> Any:
    """What a cell says to nbgrader; nothing where it says it in another shape."""
    said = cell.get("metadata", {}).get("nbgrader")
    return said if isinstance(said, dict) else {}


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
        book = merged(nbformat.read(solutions, 4), handed_in(path))
    except ValueError as error:
        print(f"error: {path}: {error}", file=sys.stderr)
        return 2
    found = marks(execute(book, path.parent, go_on=True))
    for mark in found:
        print(f"{mark.name:24} {mark.points:g} of {mark.most:g}{f'  {mark.error}' if mark.error else ''}")
    print(f"{'in all':24} {sum(mark.points for mark in found):g} of {sum(mark.most for mark in found):g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
