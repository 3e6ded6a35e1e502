"""Builds the lessons: for each source in solutions/ a notebook with solutions beside it, and one for students here.

A source is a notebook in the percent format of jupytext. A cell marked `exercise="NAME"` has its answer between
`### BEGIN SOLUTION` and `### END SOLUTION`; one marked `test="NAME" points=N` tests it, in part between
`### BEGIN HIDDEN TESTS` and `### END HIDDEN TESTS`. Both become cells of nbgrader (schema version 3). Students get the
same cells without what lies between the marks. No output is stored.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).parent
SOLUTIONS = FOLDER / "solutions"
IN_BROWSER = ("01", "02", "03", "05", "06", "08")
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
BROWSER_CELL = """\
import sys

if sys.platform == "emscripten":  # in a browser: pagesim lies in this site, what is compiled in Pyodide's
    import piplite

    await piplite.install(["numpy", "scipy", "msgspec", "jinja2", "sortedcontainers", "joblib"])
    await piplite.install(["simpy", "plotly", "ipywidgets"])
    await piplite.install("pagesim", deps=False)"""
PREPARATION = "preparation"


def sources() -> list[Path]:
    """The lessons in order."""
    return sorted(SOLUTIONS.glob("[0-9][0-9]-*.py"))


def instructors(source: Path) -> Any:
    """The notebook with solutions and all tests."""
    import jupytext  # whoever only grades or runs does without

    book = jupytext.read(source, fmt="py:percent")
    if source.name[:2] in IN_BROWSER:
        first = next(k for k, cell in enumerate(book.cells) if cell.cell_type == "code")
        book.cells.insert(first, nbformat.v4.new_code_cell(BROWSER_CELL, metadata={"tags": [PREPARATION]}))
    for number, cell in enumerate(book.cells):
        cell.metadata = _metadata(cell.metadata)
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"cell-{number}")
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    book.nbformat, book.nbformat_minor = 4, 5
    return book


def students(book: Any) -> Any:
    """The same notebook without solutions and hidden tests."""
    cut = nbformat.from_dict(book)
    for cell in cut.cells:
        if "nbgrader" in cell.metadata:
            cell.source = _without(_without(cell.source, "SOLUTION", STUB), "HIDDEN TESTS", ())
    return cut


def _metadata(said: Any) -> dict[str, Any]:
    if "exercise" in said:
        return {"nbgrader": _nbgrader(f"exercise-{said['exercise']}", solution=True)}
    if "test" in said:
        return {"nbgrader": _nbgrader(f"test-{said['test']}", grade=True, locked=True) | {"points": said["points"]}}
    return dict(said)


def _nbgrader(grade_id: str, grade: bool = False, locked: bool = False, solution: bool = False) -> dict[str, Any]:
    return {
        "grade": grade, "grade_id": grade_id, "locked": locked, "schema_version": 3, "solution": solution,
        "task": False,
    }  # fmt: skip


def _without(text: str, what: str, stub: tuple[str, ...]) -> str:
    """The text with `stub` in place of each region between the marks. Raises ValueError if they do not pair."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        mark = line.strip()
        if mark in (f"### BEGIN {what}", f"### END {what}"):
            if inside == mark.startswith("### BEGIN"):
                raise ValueError(f"'{mark}' where it cannot be, in:\n{text}")
            inside = not inside
            if inside:
                indent = line[: len(line) - len(line.lstrip())]
                kept += [indent + words for words in stub]
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"'### BEGIN {what}' without its end, in:\n{text}")
    return "\n".join(kept)


def built() -> dict[Path, str]:
    """Every notebook that the sources yield: where it belongs, and its text."""
    files = {}
    for source in sources():
        book = instructors(source)
        for folder, kind in ((SOLUTIONS, book), (FOLDER, students(book))):
            nbformat.validate(kind)
            files[folder / f"{source.stem}.ipynb"] = nbformat.writes(kind) + "\n"
    return files


def main() -> None:
    """Write them."""
    files = built()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    print(f"{len(files)} notebooks from {len(sources())} sources", file=sys.stderr)


if __name__ == "__main__":
    main()
