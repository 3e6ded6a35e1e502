"""The lessons run to their end, solved; unsolved they fail their tests; both kinds are what the build yields."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jupytext", reason="needs pagesim[dev]")
pytest.importorskip("nbclient", reason="needs pagesim[notebooks]")

import build
import grade
import nbformat

SOURCES = build.sources()
NEED_ENGINE = ("04", "07")
NOT_IN_A_BROWSER = {  # or not installed by a lesson's first cell there
    "typer", "click", "pydantic", "rich", "pyarrow", "torch", "triton", "transformers", "safetensors", "starlette",
    "uvicorn", "prometheus_client", "distributed", "fcntl", "termios", "resource",
}  # fmt: skip
WITHOUT = f"import sys\n\nsys.modules.update(dict.fromkeys({sorted(NOT_IN_A_BROWSER)}))"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(zmq|jupyter|tornado|nbclient).*")


@pytest.fixture(params=SOURCES, ids=lambda source: source.stem)
def source(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def runnable(source: Path) -> Path:
    if source.name[:2] in NEED_ENGINE:
        pytest.importorskip("torch", reason="needs pagesim[engine]")
    return source


def points(run: Any) -> list[float]:
    return [mark.points for mark in grade.marks(run)]


def test_a_browser_gets_what_the_lessons_import_and_nothing_that_they_do_without() -> None:
    installed = set(re.findall(r'"(\w+)"', build.BROWSER_CELL.split("import piplite")[1]))
    assert {"numpy", "scipy", "msgspec", "simpy", "plotly", "pagesim"} <= installed
    assert not installed & NOT_IN_A_BROWSER


def test_there_are_eight_lessons() -> None:
    assert [source.name[:2] for source in SOURCES] == [f"{number:02}" for number in range(1, 9)]


def test_the_notebooks_are_what_the_sources_yield() -> None:
    built = build.built()
    assert len(built) == 2 * len(SOURCES)
    assert build.stale(built) == [], "python notebooks/build.py makes them anew"


def test_no_output_is_stored(source: Path) -> None:
    for folder in (build.FOLDER, build.SOLUTIONS):
        for cell in nbformat.read(folder / f"{source.stem}.ipynb", 4).cells:
            assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None)


def test_students_get_the_same_but_for_solutions_and_hidden_tests(source: Path) -> None:
    ours = nbformat.read(build.SOLUTIONS / f"{source.stem}.ipynb", 4)
    theirs = nbformat.read(build.FOLDER / f"{source.stem}.ipynb", 4)
    assert [(c.id, c.cell_type, c.metadata) for c in ours.cells] == [
        (c.id, c.cell_type, c.metadata) for c in theirs.cells
    ]
    assert ours.metadata == theirs.metadata
    for one, other in zip(ours.cells, theirs.cells, strict=True):
        if one.source == other.source:
            continue
        said = one.metadata.nbgrader
        assert said.solution or said.grade
        lines = list(difflib.ndiff(one.source.splitlines(), other.source.splitlines()))
        added = {line[2:].strip() for line in lines if line.startswith("+ ")}
        assert added == (set(build.STUB) if said.solution else set()), one.id
    text = "\n".join(cell.source for cell in theirs.cells)
    assert "### " not in text.replace("### Thrashing", ""), "a mark was left in"


def test_the_grading_cells_are_as_nbgrader_wants_them(source: Path) -> None:
    cells = [c for c in build.instructors(source).cells if "nbgrader" in c.metadata]
    names = [c.metadata.nbgrader.grade_id for c in cells]
    assert len(set(names)) == len(names)
    tested = {name.removeprefix("test-") for name in names if name.startswith("test-")}
    asked = {name.removeprefix("exercise-") for name in names if name.startswith("exercise-")}
    assert tested == asked and asked
    for cell in cells:
        said = cell.metadata.nbgrader
        assert said.schema_version == 3 and said.grade != said.solution and said.locked == said.grade and not said.task
        assert ("points" in said) == said.grade
        marked = "SOLUTION" if said.solution else "HIDDEN TESTS"
        assert f"### BEGIN {marked}" in cell.source and f"### END {marked}" in cell.source


def test_a_lesson_says_what_it_is_for_and_how_long_it_takes(source: Path) -> None:
    first = build.instructors(source).cells[0].source
    assert "**You will be able to**" in first and "**Plan, 50 minutes**" in first
    minutes = [
        int(line.split("|")[1])
        for line in first.splitlines()
        if line.startswith("| ") and line.split("|")[1].strip().isdigit()
    ]
    assert sum(minutes) == 50


def test_solved_it_runs_to_its_end_with_all_points(source: Path, tmp_path: Path) -> None:
    book = build.instructors(runnable(source))
    if source.name[:2] in build.IN_BROWSER:
        book.cells.insert(0, nbformat.v4.new_code_cell(WITHOUT))
    run = grade.execute(book, tmp_path)
    assert points(run) == [mark.most for mark in grade.marks(run)]
    assert any(
        "application/vnd.plotly.v1+json" in out.get("data", {}) for c in run.cells for out in c.get("outputs", [])
    )


def test_unsolved_it_gets_no_point(source: Path, tmp_path: Path) -> None:
    book = build.instructors(runnable(source))
    run = grade.execute(grade.merged(book, build.students(book)), tmp_path, go_on=True)
    assert points(run) == [0] * len(points(run))
    broken = {out.ename for c in run.cells for out in c.get("outputs", []) if out.output_type == "error"}
    assert "NotImplementedError" in broken


def test_a_missing_answer_is_told() -> None:
    book = build.instructors(SOURCES[0])
    handed_in = build.students(book)
    handed_in.cells = [cell for cell in handed_in.cells if cell.id != "exercise-1b"]
    with pytest.raises(ValueError, match="exercise-1b"):
        grade.merged(book, handed_in)


def test_what_a_student_changed_in_a_test_has_no_say() -> None:
    book = build.instructors(SOURCES[0])
    handed_in = build.students(book)
    for cell in handed_in.cells:
        if cell.id.startswith("test-"):
            cell.source = "pass"
    assert [c.source for c in grade.merged(book, handed_in).cells if c.id.startswith("test-")] == [
        c.source for c in book.cells if c.id.startswith("test-")
    ]


@pytest.mark.parametrize(
    "text", ["### END SOLUTION", "### BEGIN SOLUTION\nx", "### BEGIN SOLUTION\n### BEGIN SOLUTION"]
)
def test_marks_that_do_not_pair_stop_the_build(text: str) -> None:
    with pytest.raises(ValueError, match="SOLUTION"):
        build._without(text, "SOLUTION", build.STUB)
