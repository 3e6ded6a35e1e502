"""`pagesim validate note`: every row of the note's table, with a standing that its numbers bear out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pagesim.validate.note import rows as note_rows
from pagesim.validate.note.ours import Ours
from pagesim.validate.note.row import NoteRow, Standing
from pagesim.validate.note.rows import SERVED, Published, note

TABLE = Path(__file__).parents[3] / "shared" / "NOTE-NUMBERS.md"
KEYS = {"id", "kind", "what", "published", "ours", "unit", "difference", "standing", "command", "remark"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "pagesim", "validate", "note", "--json"], capture_output=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_no_row_of_the_table_is_left_out(document: dict[str, Any]) -> None:
    if not TABLE.exists():
        pytest.skip("the note's table lies beside the project, and is not here")
    listed = re.findall(r"^\| ([a-z0-9_, ]+) \|.*\| [AMS] \|", TABLE.read_text(), re.MULTILINE)
    names = {name.strip() for cell in listed for name in cell.split(",")}
    assert len(names) == 34
    assert {row["id"] for row in document["rows"]} == names


def test_every_row_says_what_it_is_worth(document: dict[str, Any]) -> None:
    assert document["schema"] == "pagesim.note/1"
    for row in document["rows"]:
        assert row.keys() == KEYS
        assert row["kind"] in "AMS" and row["published"] and row["remark"] and row["command"].startswith("pagesim ")
        assert Standing(row["standing"])
        if row["standing"] == "arithmetic":
            assert row["published"] == [row["ours"]], row
        if row["standing"] == "reproduced" and "in words" not in row["what"]:
            assert abs(row["difference"]) <= 0.02, row
        if row["standing"] == "predicted":
            assert abs(row["difference"]) <= 0.10, row


def test_what_is_known_not_to_be_explained_says_so(document: dict[str, Any]) -> None:
    standing = {(row["id"], row["what"]): row["standing"] for row in document["rows"]}
    for what in ("cold, 1,024 tokens", "warm, 4,096 tokens"):
        assert standing["cold_warm", what] == "not explained"
    assert standing["noncache_bytes", "what is not cache"] == "not explained"
    assert standing["unstarved", "throughput"] == "fitted"
    assert standing["starved", "preemptions, scheduler alone"] == "reproduced"


def test_a_row_that_does_not_reproduce_loses_its_standing() -> None:
    row = Published("tile", "A", "multiply-adds of a tile", (14336.0,), "", "pagesim kernel explain")
    (wrong,) = note_rows._beside([row], Ours((14337,), Standing.ARITHMETIC, "why"))
    assert wrong.standing is Standing.NOT_EXPLAINED
    (right,) = note_rows._beside([row], Ours((14336,), Standing.ARITHMETIC, "why"))
    assert right.standing is Standing.ARITHMETIC
    (near,) = note_rows._beside([row], Ours((14200,), Standing.REPRODUCED, "why"))
    (far,) = note_rows._beside([row], Ours((14000,), Standing.REPRODUCED, "why"))
    assert (near.standing, far.standing) == (Standing.REPRODUCED, Standing.NOT_EXPLAINED)


def test_differences() -> None:
    def row(published: tuple[float, ...], ours: float) -> NoteRow:
        return NoteRow("x", "A", "", published, ours, "", Standing.PREDICTED, "", "")

    assert row((8.0, 12.0), 11.0).difference == pytest.approx(0.1)
    assert row((0.0,), 0.0).difference == 0
    assert row((0.0,), 1.0).difference is None
    assert row((1.0,), float("nan")).as_json()["ours"] is None


def test_the_two_sources_of_rows_do_not_overlap() -> None:
    assert not {row.id for row in note().rows} & SERVED.keys()


def test_commands_of_rows_run(document: dict[str, Any]) -> None:
    commands = sorted({row["command"] for row in document["rows"]} - {"pagesim validate note"})
    quick = [command for command in commands if command.split()[1] in ("capacity", "kernel")]
    assert len(quick) >= 8
    for command in quick:
        done = subprocess.run([sys.executable, "-m", "pagesim", *command.split()[1:]], capture_output=True)
        assert done.returncode == 0, (command, done.stderr)
