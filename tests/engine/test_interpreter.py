"""Runs `interpreted` in a process with TRITON_INTERPRET=1, so that this one keeps a compiling Triton."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs pagesim[engine]")

FOLDER = Path(__file__).parent / "interpreted"


def test_the_triton_backend_under_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d* passed", done.stdout), done.stdout


def test_the_triton_backend_is_refused_where_it_cannot_run() -> None:
    """Without a card and without the interpreter: at start-up, not at the first step, and nothing runs in its place."""
    code = """
from pagesim.engine import Engine, EngineConfig
from pagesim.kernels.errors import BackendError
try:
    Engine(EngineConfig("random:tiny", backend="triton", num_blocks=300))
except BackendError as error:
    print(error)
"""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "cannot run on cpu" in done.stdout, done.stderr
