"""Makes `kernel_cases` importable here and in `interpreted`, and starts the processes that run the latter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
LONGEST = ("test_decode.py", "test_prefill.py")  # begun first, so that the last to end is a short one

sys.path.insert(0, str(FOLDER))

Runs = dict[str, Future[subprocess.CompletedProcess[str]]]


@pytest.fixture(scope="session", autouse=True)
def interpreted_runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    """The selected files of `interpreted`, each in a process of its own: they run while the other tests do."""
    chosen = [item for item in request.session.items if item.path == FOLDER / "test_interpreter.py"]
    names = sorted((item.callspec.params["name"] for item in chosen), key=lambda name: name not in LONGEST)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(_interpret, name) for name in names}


def _interpret(name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / "interpreted" / name)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}  # tensors too small to share out
    return subprocess.run(command, env=environment, capture_output=True, text=True)
