"""Runs a notebook, and grades one that a student has handed in, as nbgrader does: nothing but answers is taken over.

python notebooks/grade.py HANDED_IN.ipynb       points of each exercise; the lesson is told by its file name

It runs in an empty folder of its own. An answer that does not come to an end, or ends the kernel, is taken out, and the
others are graded without it. Answers and tests run in one kernel, so an answer that is bent on it can change what is
tested: whoever gives marks reads the answers too.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
from build import FOLDER, SOLUTIONS
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

LONGEST_CELL_S = 600
TURN_S = 5.0  # a message that is there is asked for again after so long
LONGEST_GRADED_S = 120  # no cell of a lesson takes a quarter of that
LONGEST_REASON = 200  # characters
STARTUP_S = 300  # a kernel on a busy machine reads its libraries from a busy disk


@dataclass(frozen=True, slots=True)
class Mark:
    """What one test cell says: `points` of `most`, and the error if it failed."""

    name: str
    points: float
    most: float
    error: str | None


class Client(NotebookClient):
    """Waits for the kernel's messages in turns: where the system loses the signal that one is there, a wait without
    turns finds it only at its end, after as long as a cell may take.
    """

    async def async_start_new_kernel_client(self) -> Any:
        """The client, its channels waiting in turns."""
        client: Any = await super().async_start_new_kernel_client()
        for channel in (client.shell_channel, client.iopub_channel):
            channel.get_msg = in_turns(channel.get_msg)
        return client


def in_turns(get_msg: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same, asking again and again, TURN_S each. `timeout` in seconds. Raises Empty if nothing came within it."""

    async def asking(timeout: float | None = None) -> Any:
        end_s = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return await get_msg(timeout=max(0.0, min(TURN_S, end_s - time.monotonic())))
            except Empty:
                if time.monotonic() >= end_s:
                    raise

    return asking


def execute(book: Any, folder: Path, go_on: bool = False) -> Any:
    """Run every cell in a kernel of its own, in `folder`; `go_on` past errors. Returns the notebook with outputs."""
    run = nbformat.from_dict(book)
    _client(run, folder, LONGEST_CELL_S, go_on, []).execute()
    return run


def graded(book: Any, longest_s: int = LONGEST_GRADED_S) -> list[Mark]:
    """The points of a notebook made by `merged`, whatever its answers do to the kernel."""
    book = nbformat.from_dict(book)
    while True:
        run, stopped = _as_far_as_it_goes(book, longest_s)
        answer = None if stopped is None else _answer_of(book, stopped[0])
        if answer is None or stopped is None or answer.source == stopped[1]:
            return marks(run)
        answer.source = stopped[1]


def _as_far_as_it_goes(book: Any, longest_s: int) -> tuple[Any, tuple[str, str] | None]:
    """The notebook with outputs; and if a cell stopped it, that cell's id and code that says so in its place."""
    run = nbformat.from_dict(book)
    begun: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            client = _client(run, Path(folder), longest_s, True, begun)
            client.execute(stderr=subprocess.DEVNULL)  # the kernel's own words; those of a cell are in its outputs
        except CellTimeoutError:
            why = f"did not come to an end in {longest_s} s"
        except DeadKernelError:
            why = "ended the kernel"
        else:
            return run, None
    begun[-1].execution_count = None
    return run, (begun[-1].id, f'raise RuntimeError("{why}")')


def _client(run: Any, folder: Path, longest_s: int, go_on: bool, begun: list[Any]) -> NotebookClient:
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")  # figures as data, without a copy of plotly.js in each
    words: Any = {
        "timeout": longest_s, "kernel_name": "python3", "allow_errors": go_on, "startup_timeout": STARTUP_S,
        "on_cell_execute": lambda cell, cell_index: begun.append(cell), "on_cell_executed": _told,
    }  # fmt: skip
    return Client(run, resources={"metadata": {"path": str(folder)}}, **words)


def _told(cell: Any, cell_index: int, execute_reply: Any) -> None:
    """Show an error that the kernel replied and the cell does not show: an answer can turn tracebacks off."""
    said = execute_reply["content"]
    if said["status"] != "ok" and not _errors(cell):
        name, text = said.get("ename", "Error"), said.get("evalue", "")
        cell.outputs.append(nbformat.v4.new_output("error", ename=name, evalue=text, traceback=[]))


def handed_in(path: Path) -> Any:
    """The notebook of a student. Raises ValueError if it is none."""
    try:
        return nbformat.read(path, 4)
    except Exception as error:  # JSON of another shape: of whichever type
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"not a notebook ({reason[:LONGEST_REASON]})") from error


def _answer_of(book: Any, cell_id: str) -> Any | None:
    """The answer that is, or is tested in, the cell of that id."""
    name = f"exercise-{cell_id.split('-', 1)[1]}" if cell_id.startswith(("exercise-", "test-")) else ""
    return next((cell for cell in _graded(book, "solution") if cell.id == name), None)


def merged(instructors: Any, handed_in: Any) -> Any:
    """The instructors' notebook with the answers of a student in place of the solutions.

    Raises ValueError if one of the answers is missing, there twice, or no text.
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
    """The points of a notebook that was run past its errors; a cell that was not run to its end has none."""
    answers = {cell.metadata.nbgrader.grade_id: cell for cell in _graded(run, "solution")}
    return [_mark(cell, answers.get(_exercise(cell))) for cell in _graded(run, "grade")]


def _mark(cell: Any, answer: Any) -> Mark:
    said = cell.metadata.nbgrader
    errors = [f"the answer: {error}" for error in _errors(answer)] if answer else []
    errors += _errors(cell) + (["was not run"] if cell.execution_count is None else [])
    passed = not _errors(cell) and cell.execution_count is not None
    return Mark(said.grade_id, said.points if passed else 0, said.points, None if passed else errors[0])


def _errors(cell: Any) -> list[str]:
    each = [out for out in cell.outputs if out.output_type == "error"]
    return [f"{out.ename}: {' '.join(out.evalue.split())}".removesuffix(": ")[:LONGEST_REASON] for out in each]


def _exercise(test: Any) -> str:
    return str(test.metadata.nbgrader.grade_id).replace("test-", "exercise-", 1)


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
    found = graded(book)
    for mark in found:
        print(f"{mark.name:24} {mark.points:g} of {mark.most:g}{f'  {mark.error}' if mark.error else ''}")
    print(f"{'in all':24} {sum(mark.points for mark in found):g} of {sum(mark.most for mark in found):g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
