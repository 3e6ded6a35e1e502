"""`pagesim serve` as a process: signals, its files, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from running_server import PATIENCE_S, Running

COMMAND = [sys.executable, "-m", "pagesim", "serve", "--model", "random:tiny", "--num-blocks", "600"]
ROWS = {"step", "t", "running", "waiting", "scheduled_tokens", "blocks_used", "admitted", "preempted", "finished"}


@contextmanager
def process(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it printed."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*COMMAND, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as started:
        try:
            assert started.stdout is not None
            yield started, started.stdout.readline().strip()
        finally:
            started.kill()


def test_sigterm_lets_requests_end_and_puts_the_step_log_in_place(tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"
    with process("--steps", str(steps), "--served-model-name", "mine") as (started, address):
        assert address.startswith("http://127.0.0.1:")
        with Running(None, address).client() as client:
            stream = client.completions.create(model="mine", prompt="a", max_tokens=400, stream=True)
            next(iter(stream))
            assert steps.with_name("steps.jsonl.partial").exists()
            started.send_signal(signal.SIGTERM)
            chunks = list(stream)
        out, err = started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 0, err
    assert chunks[-1].choices[0].finish_reason == "length"
    assert out == ""
    assert "attention    reference: plain torch" in err
    assert "Traceback" not in err
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(400))
    assert all(row.keys() == ROWS for row in rows)
    assert list(tmp_path.iterdir()) == [steps]


def test_past_the_grace_a_request_is_ended_and_a_kill_loses_no_line(tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with process("--steps", str(steps), "--grace", "0") as (started, address):
            with Running(None, address).client() as client:
                stream = client.completions.create(model="random:tiny", prompt="a", max_tokens=4000, stream=True)
                for _, _ in zip(range(20), stream, strict=False):
                    pass
                started.send_signal(number)
                started.wait(PATIENCE_S)
                stream.close()
            assert started.returncode == status
        written = steps if status == 0 else steps.with_name("steps.jsonl.partial")
        lines = written.read_text().splitlines()
        assert len(lines) >= 20
        assert [json.loads(line)["step"] for line in lines] == list(range(len(lines)))


@pytest.mark.parametrize(
    ("library", "command", "extra"),
    [
        ("torch", ["serve"], "engine"),
        ("uvicorn", ["serve"], "serve"),
        ("torch", ["generate", "a"], "engine"),
        ("torch", ["bench", "engine"], "engine"),
    ],
)
def test_a_library_that_is_missing(library: str, command: list[str], extra: str) -> None:
    code = (
        f"import sys; sys.modules[{library!r}] = None; sys.argv = ['pagesim', *{command!r}, '--model', 'random:tiny']\n"
        "from pagesim.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {library} is not installed; accepted: pip install 'pagesim[{extra}]'\n"
