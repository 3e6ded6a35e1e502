"""What is handed in may be anything: it is graded, or refused in one line; no answer gets points by hiding errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="needs pagesim[notebooks]")

import grade
import nbformat

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(zmq|jupyter|tornado|nbclient).*")


def cell(name: str, source: str, **said: Any) -> Any:
    graded = {"grade_id": name, "grade": False, "solution": False, "locked": False, "schema_version": 3, **said}
    return nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": graded})


def lesson(answer: str, test: str = "assert x == 1") -> Any:
    """Two exercises: the answer to the first is given, that to the second is right."""
    return nbformat.v4.new_notebook(
        cells=[
            cell("exercise-1", answer, solution=True), cell("test-1", test, grade=True, points=2),
            cell("exercise-2", "y = 2", solution=True), cell("test-2", "assert y == 2", grade=True, points=3),
        ]
    )  # fmt: skip


def graded(book: Any) -> list[tuple[float, str]]:
    return [(mark.points, (mark.error or "").rpartition(": ")[0]) for mark in grade.graded(book, longest_s=3)]


def test_an_answer_that_hides_errors_gets_no_point_for_that() -> None:
    hides = "ip = get_ipython()\nip.showtraceback = ip._showtraceback = lambda *a, **k: None"
    assert graded(lesson(hides)) == [(0, "NameError"), (3, "")]


@pytest.mark.parametrize(
    "answer",
    [
        "import os\nclass Ends:\n    def __eq__(self, other): os._exit(0)\nx = Ends()",
        "class Turns:\n    def __eq__(self, other):\n        while True: pass\nx = Turns()",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1000)",
    ],
    ids=["its test ends the kernel", "its test does not end", "it listens to nobody"],
)
def test_an_answer_that_stops_the_kernel_is_taken_out(answer: str) -> None:
    assert graded(lesson(answer)) == [(0, "the answer: RuntimeError"), (3, "")]


NO_NOTEBOOKS = {
    "text": b"hello", "bytes": b"\xff\xfe\x00", "a list": b"[]", "a number": b"3", "nothing in it": b"{}",
    "no cells": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": null}',
    "cells without metadata": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code"}]}',
}  # fmt: skip


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """told(bytes): the one line that grade.py says of a lesson 1 that it refuses."""

    def call(text: bytes) -> str:
        path = tmp_path / "01-the-bill-for-a-reservation.ipynb"
        path.write_bytes(text)
        monkeypatch.setattr(sys, "argv", ["grade.py", str(path)])
        assert grade.main() == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"error: {path}: ") and err.count("\n") == 1
        return err.removeprefix(f"error: {path}: ")

    return call


@pytest.mark.parametrize("name", NO_NOTEBOOKS)
def test_what_is_no_notebook_is_one_line(told: Any, name: str) -> None:
    assert told(NO_NOTEBOOKS[name]).startswith("not a notebook (")


@pytest.mark.parametrize("said", [[1], "solution", {"solution": True}, None])
def test_an_answer_whose_name_is_gone_is_missing(told: Any, said: object) -> None:
    book = json.loads((grade.FOLDER / "01-the-bill-for-a-reservation.ipynb").read_text())
    for each in book["cells"]:
        if each["id"] == "exercise-1b":
            each["metadata"]["nbgrader"] = said
    assert told(json.dumps(book).encode()).startswith("no cell 'exercise-1b' in what was handed in")


def test_an_answer_that_is_there_twice_is_told(told: Any) -> None:
    book = json.loads((grade.FOLDER / "01-the-bill-for-a-reservation.ipynb").read_text())
    (answer,) = [each for each in book["cells"] if each["id"] == "exercise-1b"]
    book["cells"].append({**answer, "id": "copied", "source": "reservations = None"})
    assert told(json.dumps(book).encode()).startswith("2 cells 'exercise-1b' in what was handed in; accepted: one")
