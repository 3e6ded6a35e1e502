"""Calls the command line as a person does, in an empty folder; and a sweep that takes no time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pagesim import cli

sys.path.insert(0, str(Path(__file__).parent))


class Outcome:
    """Exit status and the two streams of one call."""

    def __init__(self, status: object, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pagesim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["pagesim", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return Outcome(stopped.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def sweep(pagesim: Any) -> Any:
    """In this process, so that nothing is spawned."""
    return lambda *words: pagesim("sweep", "--pool-tokens", 20_000, "--jobs", 1, *words)
