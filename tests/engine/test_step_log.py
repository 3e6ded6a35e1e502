"""The step log: one line a step, and a file that is whole or not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from without_model import sample, scheduler, sequence

from pagesim.engine.errors import ConfigError
from pagesim.engine.step_log import step_log


def test_a_line_has_the_columns_of_the_recordings(tmp_path: Path) -> None:
    engine = scheduler(prefix_caching=True)
    for name in ("a", "ü"):
        engine.add(sequence(name, list(range(9)), 1))
    with step_log(tmp_path / "steps.jsonl") as write:
        step = engine.schedule()
        write(step, engine.finish_step(step, sample(step)), 0.25)
    (line,) = (tmp_path / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "step": 0,
        "t": 0.25,
        "running": 2,
        "waiting": 0,
        "scheduled_tokens": 10,
        "blocks_used": 4,
        "admitted": [["a", 0], ["ü", 8]],
        "preempted": [],
        "finished": ["a", "ü"],
    }


def test_until_it_is_closed_the_file_is_not_there_but_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text("an older log\n")
    engine = scheduler()
    engine.add(sequence("a", 9, 1))

    def break_off() -> None:
        with step_log(path) as write:
            write(engine.schedule(), [], 0.0)
            assert len((tmp_path / "steps.jsonl.partial").read_text().splitlines()) == 1
            raise KeyError("the run broke off")

    with pytest.raises(KeyError):
        break_off()
    assert path.read_text() == "an older log\n"
    assert len((tmp_path / "steps.jsonl.partial").read_text().splitlines()) == 1


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/steps.jsonl: No such file or directory; accepted: a file in"):
        step_log(tmp_path / "nowhere" / "steps.jsonl").__enter__()
