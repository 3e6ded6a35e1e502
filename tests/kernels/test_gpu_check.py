"""gpu_check where there is no card: its plan, its refusal, and the engine's half against an engine made up here."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu_check
from gpu_check_engine import BACKENDS, Workload, throughput

SMALL = Workload(num_requests=3, prompt_tokens=5, output_tokens=4)


def test_the_plan_names_everything_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton", reason="needs pagesim[engine]")
    monkeypatch.setattr(sys, "argv", ["gpu_check", "--plan"])
    assert gpu_check.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("correctness: decode and prefill, lengths [1, 15, 16, 17, 255, 1000]")
    assert sum(line.startswith("bench: ") for line in lines) == len(gpu_check.GRIDS)
    assert sum(line.startswith("engine: ") for line in lines) == len(BACKENDS)
    target = next(line for line in lines if line.startswith("bench: "))
    assert target == "bench: batch [64], context [2048], blocks of [16], 14 heads over 2 of 64, fp16"


def test_without_a_card_it_stops(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch", reason="needs pagesim[engine]")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_check"])
    assert gpu_check.main() == 2
    assert capsys.readouterr().err.startswith("error: no CUDA device was found")


def test_what_the_deadline_cuts_off_is_said() -> None:
    pytest.importorskip("triton", reason="needs pagesim[engine]")
    assert [part["not_run"] for part in gpu_check.measure(gpu_check.GRIDS[:2], -math.inf)] == ["out of time"] * 2


def test_an_engine_that_is_not_there_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pagesim.engine", None)
    (row,) = throughput("cpu", 80, SMALL, math.inf)
    assert row["skipped"].startswith("the engine cannot be imported: ")


@dataclass
class Sampling:
    temperature: float
    max_tokens: int
    ignore_eos: bool


class MadeUp:
    """An engine that answers with as many tokens as it is asked for, but for one backend, which cannot run."""

    short_by = 0

    def __init__(self, config) -> None:
        if config.backend == "reference":
            raise RuntimeError("no such backend")
        assert config.num_blocks == 3 * 1 + 1

    def generate(self, prompts, sampling):
        assert [len(prompt) for prompt in prompts] == [5, 5, 5]
        assert sampling.ignore_eos
        return [SimpleNamespace(token_ids=(1,) * (sampling.max_tokens - self.short_by)) for _ in prompts]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("pagesim.engine")
    vars(module).update(
        Engine=MadeUp, EngineConfig=lambda **options: SimpleNamespace(**options), SamplingParams=Sampling
    )
    monkeypatch.setitem(sys.modules, "pagesim.engine", module)


@pytest.mark.usefixtures("made_up")
def test_the_engine_is_timed_on_each_backend_and_a_failure_costs_the_others_nothing() -> None:
    rows = list(throughput("cpu", 75, SMALL, math.inf))
    assert [row.get("output_tokens") for row in rows] == [12, 12, None]
    assert all(row["output_tokens_per_s"] > 0 for row in rows[:2])
    assert rows[2]["failed"] == "RuntimeError: no such backend"
    assert {row["config"]["dtype"] for row in rows} == {"float16"}
    late = list(throughput("cpu", 90, SMALL, -math.inf))
    assert [row["not_run"] for row in late] == ["out of time"] * 3
    assert {row["config"]["dtype"] for row in late} == {"bfloat16"}


@pytest.mark.usefixtures("made_up")
def test_an_engine_that_answers_short_gets_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MadeUp, "short_by", 1)
    rows = list(throughput("cpu", 80, SMALL, math.inf))
    assert rows[0]["failed"] == "9 output tokens; expected 12"
    assert "output_tokens_per_s" not in rows[0]
