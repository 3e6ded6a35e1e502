"""Runs each file of `interpreted` in a process with TRITON_INTERPRET=1, so that this one keeps a compiling Triton.

The processes run side by side, as many as there are cores: most of the time of these tests is theirs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs pagesim[engine]")

FOLDER = Path(__file__).parent / "interpreted"
NAMES = sorted(path.name for path in FOLDER.glob("test_*.py"))
Runs = dict[str, Future[subprocess.CompletedProcess[str]]]


def run(name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / name)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}  # tensors too small to share out
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    wanted = {item.callspec.params["name"] for item in request.session.items if item.path == Path(__file__)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(run, name) for name in NAMES if name in wanted}


@pytest.mark.parametrize("name", NAMES)
def test_under_the_interpreter(name: str, runs: Runs) -> None:
    done = runs[name].result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d* passed", done.stdout), done.stdout
