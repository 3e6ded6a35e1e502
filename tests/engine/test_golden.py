"""Driven without a model, the engine's scheduler does in every step what vLLM's own was recorded doing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from recordings import OURS, SHARED, arrivals_of, load, recordings, scheduler_of
from without_model import drive

COMPARE = SHARED / "compare.py"


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    if not COMPARE.exists():
        pytest.skip("compare.py of the recordings is not beside this checkout")
    spec = importlib.util.spec_from_file_location("golden_compare", COMPARE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_recordings() -> None:
    assert len(list(OURS.glob("*.json.gz"))) == 31


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.name.split(".")[0])
def test_every_step_and_every_sum_agree(path: Path) -> None:
    recording = load(path)
    scheduler = scheduler_of(recording)
    small = recording["totals"]["steps"] * recording["totals"]["peak_running"] < 6_000
    rows = list(drive(scheduler, arrivals_of(recording), check=small))
    for column in ("running", "waiting", "scheduled_tokens", "blocks_used"):
        assert [row[column] for row in rows] == recording["steps"][column], column
    for column in ("preempted", "finished"):
        assert [[row["step"], id] for row in rows for id in row[column]] == recording["steps"][column], column
    admitted = [[row["step"], *pair] for row in rows for pair in row["admitted"]]
    assert admitted == recording["steps"]["admitted"]
    assert scheduler.totals.as_dict() == recording["totals"]


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.name.split(".")[0])
def test_the_recordings_own_judge_agrees(path: Path, compare: ModuleType) -> None:
    recording = load(path)
    rows = list(drive(scheduler_of(recording), arrivals_of(recording), check=False))
    num_steps, difference = compare.compare(recording, rows)
    assert difference is None and num_steps > 0
