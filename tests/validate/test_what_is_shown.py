"""What a reader is shown is of the right side, the right part, and the right sign: made-up results, read back."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the engine's model needs torch, an extra")

from pagesim.commands.calibrate import _show
from pagesim.sim.experiments.work import Work
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.trace import Trace
from pagesim.validate.calibrate.calibration import Calibration, Group
from pagesim.validate.calibrate.fit import Residuals
from pagesim.validate.calibrate.noise import Noise
from pagesim.validate.calibrate.timing import _noise
from pagesim.validate.realtime import words
from pagesim.validate.realtime.figures import Figures
from pagesim.validate.realtime.plots import latencies
from pagesim.validate.realtime.result import Machine, Run, TimeComparison
from pagesim.validate.replay.pool_account import Account, PoolSample
from pagesim.validate.replay.words import _pool
from pagesim.validate.server import watch as watch_module
from pagesim.validate.server.experiment import ServerExperiment
from pagesim.validate.server.metrics import RUNNING, USAGE, CacheConfig, Metrics
from pagesim.validate.server.prediction import predict

FITTED, HELD_OUT = Residuals(30, 0.91, 0.01, 0.02, 0.03), Residuals(10, 0.72, 0.04, 0.05, 0.06)
CALIBRATION = Calibration(
    "a test", "made up", LinearStep(1e-3, 1e-5, 1e-8, 1e-5, 1e-7, 1e-4), FITTED, HELD_OUT, None,
    (Group("shown", False, Work(1, 2, 3, 4), 0.5, 0.6), Group("kept back", True, Work(5, 6, 7, 8), 0.7, 0.8)), None,
)  # fmt: skip


def figures(latency_s: float) -> Figures:
    each = np.full(4, latency_s)
    return Figures(1.0, 100.0 / latency_s, each, each, each)


COMPARISON = TimeComparison(
    CALIBRATION, 3.0, 4, (Run(0.5, 1.5, figures(2.0), figures(3.0), -0.125, Machine(1.0, 1.0, 1.0)),)
)


def test_times_are_the_simulators_over_the_engines_and_steps_keep_their_sign() -> None:
    rows = {row[0]: row[1:] for row in words.table(COMPARISON)}
    assert rows["  TTFT p50, ms"] == ["2,000", "3,000", "+50.0%"]
    assert rows["  output tokens/s"] == ["50", "33", "-33.3%"]
    assert rows["  the engine's own steps"] == ["", "", "-12.5%"]


def test_what_was_fitted_and_what_was_held_out_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    said = words.sentences(COMPARISON)[0]
    assert "Fit: R^2 0.910" in said and "loads held out: R^2 0.720" in said
    profile = CALIBRATION.profile("made")
    assert [each.what for each in profile.fitted_on] == ["shown"]
    assert [each.what for each in profile.held_out] == ["kept back"]
    _show(CALIBRATION)
    lines = {line.split("  ")[0].strip(): line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["fitted on"][2:4] == ["30", "0.9100"] and lines["held out"][2:4] == ["10", "0.7200"]


def test_each_curve_is_of_its_own_side() -> None:
    first = {trace.name: set(trace.x) for trace in latencies(COMPARISON).data[:2]}
    assert first == {"simulator": {3.0}, "engine": {2.0}}


def test_a_part_of_the_pool_that_differs_is_told_by_itself() -> None:
    class Physical:
        samples = (PoolSample(0, 0.0, Account(4, 3, 2, 1), Account(4, 3, 1, 2), 0, 0),)

    made: Any = Physical()
    assert {name.strip(): agrees for name, _, _, agrees in _pool(made)} == {
        "slots of the pool, mean": "NO", "used": "yes", "reserved": "yes", "internal": "NO", "free": "NO",
        "accounts read": "",
    }  # fmt: skip


def test_noise_is_of_the_least_and_the_most() -> None:
    noise = _noise([np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])], 1.0)
    assert noise.repeats_s == (3.0, 4.0, 5.0)
    assert noise.steps_spread == pytest.approx((2 / 2 + 0 / 2) / 2)
    assert Noise((4.0, 3.0, 5.0), 0.5, 1.0).words.startswith("3 repeats, of 3 to 5 s; ")


def test_of_a_gauge_the_most_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [Metrics({RUNNING: value, USAGE: value / 10}, CacheConfig()) for value in (1.0, 5.0, 2.0)]
    made: Any = iter(readings)
    watch = watch_module.Watch(None, lambda why: None)  # type: ignore[arg-type]
    monkeypatch.setattr(watch_module, "EVERY_S", 0.0)
    monkeypatch.setattr(watch_module, "read_metrics", lambda server: next(made, readings[-1]))
    watch.start()
    for _ in range(1000):
        if watch.readings >= len(readings):
            break
        time.sleep(0.01)
    watch.stop()
    assert watch.readings >= len(readings)
    assert watch.highest == {RUNNING: 5.0, USAGE: 0.5}


def test_a_prediction_lasts_from_the_first_arrival_to_the_last_token() -> None:
    trace = Trace(np.array([0.0, 4.0]), np.array([8, 8]), np.array([1, 3]))
    rules = ServingConfig(num_blocks=10, max_model_len=64)
    predicted = predict(ServerExperiment.of(trace, rules, ConstantStep(0.5), 1.0, 60.0))
    assert predicted.duration_s == pytest.approx(4.0 + 3 * 0.5)
