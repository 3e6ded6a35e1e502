"""Runs each file of `interpreted` in a process with TRITON_INTERPRET=1, so that this one keeps a compiling Triton.

The processes run side by side, beside the other tests of this folder too: `conftest.py` starts them with its first.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs pagesim[engine]")

NAMES = sorted(path.name for path in (Path(__file__).parent / "interpreted").glob("test_*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_under_the_interpreter(name: str, interpreted_runs) -> None:
    done = interpreted_runs[name].result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d* passed", done.stdout), done.stdout
