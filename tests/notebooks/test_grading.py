"""Grading: what an answer does to the kernel costs its own points alone; and answers that a student may come to."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

pytest.importorskip("jupytext", reason="needs pagesim[dev]")
pytest.importorskip("nbclient", reason="needs pagesim[notebooks]")

import build
import grade
import nbformat
import numpy as np

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(zmq|jupyter|tornado|nbclient).*")
ENDLESS = """
def answer():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""


def lesson(*answers: str, between: str = "") -> Any:
    """Exercises 1, 2, ... whose answers must be that number, and a cell that is neither answer nor test."""
    cells = []
    for number, answer in enumerate(answers, start=1):
        for name, source, points in (
            (f"exercise-{number}", answer, None), (f"test-{number}", f"assert answer() == {number}", 1),
        ):  # fmt: skip
            said: dict[str, Any] = {"grade": bool(points), "solution": not points, "grade_id": name}
            metadata = {"nbgrader": said | ({"points": points} if points else {})}
            cells.append(nbformat.v4.new_code_cell(source, metadata=metadata, id=name))
    cells.insert(2, nbformat.v4.new_code_cell(between, id="between"))
    return nbformat.v4.new_notebook(cells=cells)


def right(number: int) -> str:
    return f"def answer():\n    return {number}"


def test_an_answer_that_hangs_or_ends_the_kernel_costs_its_own_points_alone() -> None:
    found = grade.graded(lesson(right(1), ENDLESS, "import os\n\nos._exit(0)", right(4)), longest_s=3)
    assert [mark.points for mark in found] == [1, 0, 0, 1]
    assert [mark.error for mark in found] == [
        None,
        "the answer: RuntimeError: did not come to an end in 3 s",
        "the answer: RuntimeError: ended the kernel",
        None,
    ]


def test_after_a_cell_that_is_no_exercise_hangs_nothing_passes() -> None:
    found = grade.graded(lesson(right(1), right(2), between="while answer():\n    pass"), longest_s=3)
    assert [(mark.points, mark.error) for mark in found] == [(1, None), (0, "was not run")]


def test_what_is_wrong_with_the_answer_itself_is_told_before_its_test() -> None:
    (wrong, other) = grade.graded(lesson("def answer():\n    return 2 **", "import nowhere"))
    assert wrong.points == 0 and (wrong.error or "").startswith("the answer: SyntaxError: ")
    assert other.points == 0 and (other.error or "").startswith("the answer: ModuleNotFoundError: ")


def test_a_message_whose_signal_is_lost_is_found_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grade, "TURN_S", 0.01)
    waits: list[float] = []

    async def get_msg(timeout: float) -> str:
        waits.append(timeout)
        if len(waits) < 3:
            raise Empty
        return "reply"

    assert asyncio.run(grade.in_turns(get_msg)(timeout=60)) == "reply"
    assert asyncio.run(grade.in_turns(get_msg)()) == "reply"
    assert waits == [0.01] * 4


def test_a_message_that_never_comes_is_not_waited_for_longer() -> None:
    async def get_msg(timeout: float) -> str:
        raise Empty

    with pytest.raises(Empty):
        asyncio.run(grade.in_turns(get_msg)(timeout=0.01))


def test_the_check_of_the_build_writes_nothing_and_says_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["build.py", "--check"])
    assert build.main() == 0
    path, text = next(iter(build.built().items()))
    monkeypatch.setattr(build, "built", lambda: {path: text + " "})
    before = path.read_bytes()
    assert build.main() == 1 and path.read_bytes() == before
    assert f"{path}: not what its source yields" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["build.py", "--chek"])
    assert build.main() == 2 and path.read_bytes() == before
    assert "--chek: unknown" in capsys.readouterr().err


def passes(number: str, exercise: str, answer: str, needs: str = "", **given: Any) -> bool:
    """Whether the test of an exercise accepts an answer; `needs` is in the other cells that it needs."""
    cells = build.instructors(next(build.SOLUTIONS.glob(f"{number}-*.py"))).cells
    (test,) = (cell.source for cell in cells if cell.id == f"test-{exercise}")
    names: dict[str, Any] = {"np": np, **given}
    for cell in cells:
        if needs and cell.cell_type == "code" and (needs in cell.source or "from pagesim.sim" in cell.source[:200]):
            exec(cell.source, names)
    exec(answer, names)
    try:
        exec(test, names)
    except AssertionError:
        return False
    return True


ERROR = """
def held_out_error(measured, predicted, held_out):
    m, p, h = map(np.asarray, (measured, predicted, held_out))
    return float(np.{}(abs(p - m)[h] / m[h]))
"""
DOUBLING = """
def asks_doubling(prompt, final, size):
    had, asks = {}, 1
    while had * size < prompt:
        had *= 2
    while had * size < final:
        had, asks = 2 * had, asks + 1
    return asks
"""
PAGING = "def asks_paging(prompt, final, size):\n    return 1 + (final - 1) // size - (prompt - 1) // size\n"
OVERHEARD = "def overheard(probes, times):\n    return {{p for p, t in zip(probes, times) if t < {}}}"
FINDABLE = "def findable(prompt, size):\n    return {}"
WASTE = "def external_waste(free, size):\n    total = sum(n for _, n in free)\n    return total if {} else 0"


@pytest.mark.parametrize(
    ("number", "exercise", "answer", "accepted", "words"),
    [
        ("07", "7c", ERROR.format("median"), True, {}),
        ("07", "7c", ERROR.format("mean"), False, {}),
        ("03", "3c", OVERHEARD.format("sum(times) / len(times)"), True, {"needs": "def first_token_ms"}),
        ("03", "3c", OVERHEARD.format("sorted(times)[len(times) // 2]"), False, {"needs": "def first_token_ms"}),
        ("03", "3c", OVERHEARD.format("100"), False, {"needs": "def first_token_ms"}),
        ("06", "6b", FINDABLE.format("max(0, prompt - 1) // size * size"), True, {"needs": "step_time ="}),
        ("06", "6b", FINDABLE.format("(prompt - 1) // 16 * 16"), False, {"needs": "step_time ="}),
        ("06", "6b", FINDABLE.format("prompt // size * size"), False, {"needs": "step_time ="}),
        ("02", "2b", WASTE.format("total >= size and all(n < size for _, n in free)"), True, {}),
        ("02", "2b", WASTE.format("all(n < size for _, n in free)"), False, {}),
    ],
)
def test_a_right_answer_is_accepted_and_a_plausible_wrong_one_is_not(
    number: str, exercise: str, answer: str, accepted: bool, words: dict[str, Any]
) -> None:
    assert passes(number, exercise, answer, **words) == accepted


def test_the_last_exercise_needs_no_allocator_of_ones_own() -> None:
    assert passes("08", "8b", DOUBLING.format("1") + PAGING)
    assert not passes("08", "8b", DOUBLING.format("-(-prompt // size)") + PAGING)


def test_each_lesson_says_where_an_answer_belongs() -> None:
    for source in build.sources():
        assert "helpers and imports that an answer needs belong in it" in Path(source).read_text()
