"""Calls the command line as a person does."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from pagesim import cli


class Outcome:
    """Exit status and the two streams of one call."""

    def __init__(self, status: object, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


@pytest.fixture
def pagesim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["pagesim", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return Outcome(stopped.value.code or 0, *capsys.readouterr())

    return call
