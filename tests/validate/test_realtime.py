"""Times of a replay, on a made-up clock that an engine without a model moves: they come out as they were planted."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the engine's model needs torch, an extra")

from pagesim.engine.runner import Runner
from pagesim.engine.step import Step
from pagesim.sim.errors import UsageError
from pagesim.sim.jsontext import dumps
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.trace import HashIds, Trace
from pagesim.validate.calibrate.shape import Shape
from pagesim.validate.realtime import run as run_module
from pagesim.validate.realtime import words
from pagesim.validate.realtime.figures import LATENCIES
from pagesim.validate.realtime.knee import knee_rate_per_s
from pagesim.validate.realtime.result import TimeComparison
from pagesim.validate.realtime.run import Bench, Clock
from pagesim.validate.replay.experiment import Experiment

TRUE = LinearStep(4e-4, 1.3e-5, 2e-8, 2.9e-5, 2.5e-7, 3e-4)
RULES: dict[str, Any] = {"num_blocks": 65, "max_model_len": 256}


class MadeUpTime:
    """Moves when a step is computed, `slower` times as far as the model says, and when somebody sleeps."""

    def __init__(self) -> None:
        self.s, self.slower, self.extra_s = 100.0, 1.0, 0.0

    def now_s(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.s += seconds

    def compute(self, step: Step) -> dict[str, int]:
        self.s += self.slower * Shape.of(step).seconds(TRUE) + self.extra_s
        return {sampler.id: 7 for chunk in step.chunks for sampler in chunk.samplers}


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    made = MadeUpTime()
    monkeypatch.setattr(Runner, "run", lambda self, step: made.compute(step))
    return made


def drawn(count: int = 80, **columns: Any) -> Trace:
    draw = np.random.default_rng(4)
    arrival_s = np.cumsum(draw.exponential(1, count))
    prompts = draw.integers(61 if "hash_ids" in columns else 5, 120, count)
    return Trace(arrival_s, prompts, draw.integers(1, 60, count), **columns)


def measured(
    time: MadeUpTime, trace: Trace, at: tuple[float, ...] = (0.5, 1, 2), **rules: Any
) -> tuple[Bench, TimeComparison]:
    experiment = Experiment(trace, ServingConfig(**RULES | rules), ConstantStep(1.0))
    bench = Bench.start(experiment, "random:tiny", "cpu", Clock(time.now_s, time.sleep))
    bench.calibrate(bench.reach(experiment), 1)
    return bench, bench.compare(experiment, at)


@pytest.mark.parametrize(
    ("columns", "rules"),
    [
        ({}, {}),
        ({}, {"allocator": "reservation"}),
        ({}, {"allocator": "exact-fit:best", "token_budget": 64}),
        ({"n": np.tile([1, 3], 40)}, {"fork": "cow"}),
        ({"priority": np.tile([1, 0, 2, 1], 20)}, {"policy": "priority"}),
        ({"hash_ids": HashIds.of([[k % 5, 100 + k] for k in range(80)]), "hash_block_tokens": 60},
         {"prefix_caching": True}),
    ],
    ids=["paged", "reservation", "exact fit, chunks", "forks", "priority", "prefixes"],
)  # fmt: skip
def test_an_engine_that_takes_what_a_model_says_is_met_to_the_last_digit(
    columns: Any, rules: Any, time: MadeUpTime
) -> None:
    bench, found = measured(time, drawn(**columns), **rules)
    assert bench.calibration is not None
    assert astuple(bench.calibration.step_time)[:-1] == pytest.approx(astuple(TRUE)[:-1], rel=1e-6)
    assert [run.where for run in found.runs] == ["below the knee", "at the knee", "above the knee"]
    for run in found.runs:
        assert {name: error for name, error in run.errors.items() if abs(error or 0) > 1e-6} == {}
        assert run.steps_error == pytest.approx(0, abs=1e-6)
        assert run.machine.slowness_after == pytest.approx(1)
        for name in LATENCIES:
            assert sorted(getattr(run.engine, name)) == pytest.approx(sorted(getattr(run.simulator, name)), rel=1e-5)


def test_a_machine_that_slows_down_behind_the_calibration_is_seen_and_not_corrected_for(time: MadeUpTime) -> None:
    bench, _ = measured(time, drawn(), at=(1.0,))
    time.slower = 1.25
    (run,) = bench.compare(Experiment(drawn(), ServingConfig(**RULES), ConstantStep(1.0)), (2.0,)).runs
    assert run.steps_error == pytest.approx(1 / 1.25 - 1)
    assert run.machine.slowness_before == run.machine.slowness_after == pytest.approx(1.25)
    assert run.errors["output_tokens_per_s"] == pytest.approx(0.25, abs=0.02)  # always busy, nearly
    assert run.errors["tpot_s.p50"] == pytest.approx(1 / 1.25 - 1, abs=0.05)
    assert "this was not the machine that was calibrated" in words.sentences(
        TimeComparison(run_calibration(bench), 1.0, 80, (run,))
    )[-1]  # fmt: skip


def run_calibration(bench: Bench) -> Any:
    assert bench.calibration is not None
    return bench.calibration


def test_what_the_loop_does_between_steps_belongs_to_the_step(time: MadeUpTime) -> None:
    time.extra_s = 1e-3
    bench, found = measured(time, drawn(), at=(1.0,))
    assert run_calibration(bench).step_time.base_s == pytest.approx(TRUE.base_s + 1e-3)
    assert abs(found.runs[0].errors["e2e_s.p99"] or 0) < 1e-6


def test_a_simulator_that_is_told_other_step_times_is_off(time: MadeUpTime, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = run_module.simulated_figures
    double = LinearStep(8e-4, 2.6e-5, 4e-8, 5.8e-5, 5e-7, 6e-4)
    monkeypatch.setattr(
        run_module, "simulated_figures", lambda trace, experiment, _: simulated(trace, experiment, double)
    )
    _, found = measured(time, drawn(), at=(2.0,))
    assert found.runs[0].errors["output_tokens_per_s"] == pytest.approx(-0.5, abs=0.03)
    assert found.runs[0].steps_error == pytest.approx(0, abs=1e-6), "the profile is right"


def test_the_queue_grows_above_the_knee_and_not_below(time: MadeUpTime) -> None:
    trace = Trace(np.arange(400) / 10, np.full(400, 40), np.full(400, 30))
    _, found = measured(time, trace, at=(0.8, 1.3))
    below, above = (run.simulator.ttft_s for run in found.runs)
    assert below[300:].mean() < 2 * below[:100].mean() < 0.2 * above[300:].mean()


@pytest.mark.parametrize(
    ("allocator", "sequences"), [("paged", 1024 // 55), ("reservation", 4), ("exact-fit", 1024 // 70)]
)
def test_the_knee_is_what_a_full_batch_of_that_allocator_finishes(allocator: str, sequences: int) -> None:
    config = ServingConfig(**RULES, allocator=allocator)
    trace = Trace(np.arange(9.0), np.full(9, 40), np.full(9, 30))  # 55 slots filled in the mean, 70 held from the start
    assert knee_rate_per_s(trace, config, ConstantStep(0.01)) == pytest.approx(sequences / 30 / 0.01)
    twice = Trace(np.arange(9.0), np.full(9, 40), np.full(9, 30), n=np.full(9, 2))
    assert knee_rate_per_s(twice, config, ConstantStep(0.01)) == pytest.approx(sequences / 60 / 0.01)


def test_requests_that_are_too_long_are_served_by_neither(time: MadeUpTime) -> None:
    trace = drawn()
    longer = Trace(trace.arrival_s, np.where(np.arange(80) == 3, 250, trace.prompt_tokens), trace.output_tokens + 10)
    _, found = measured(time, longer, at=(1.0,))
    assert found.requests == 79 == len(found.runs[0].engine.e2e_s) == len(found.runs[0].simulator.e2e_s)


def test_requests_that_all_come_at_once_have_no_rate_to_scale(time: MadeUpTime) -> None:
    with pytest.raises(UsageError, match="all arrive at once"):
        measured(time, Trace(np.zeros(9), np.full(9, 40), np.full(9, 30)))


def test_answers_of_one_token_have_no_tpot(time: MadeUpTime) -> None:
    _, found = measured(time, Trace(np.arange(9.0), np.full(9, 40), np.full(9, 1)), at=(1.0,))
    assert found.runs[0].errors["tpot_s.p50"] is None
    document = json.loads(dumps(found.as_json()))
    assert document["runs"][0]["engine"]["tpot_s"]["missing"] == 9
    (tpot,) = [row for row in words.table(found) if row[0] == "  TPOT p50, ms"]
    assert tpot[1:] == ["-", "-", "-"]
