"""The simulator's side of a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steps import steps
from pagesim.sim.serving.timeline import Timeline
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.livelock import LivelyStepTime
from pagesim.validate.replay.log import ReplayLog, ReplayStep


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """What the simulator wrote down, and the same in the columns of a replay."""

    log: ServingLog
    replay: ReplayLog


def simulate(experiment: Experiment, on_progress: Callable[[int], None] | None = None) -> Simulated:
    """Serve the trace. Raises UsageError, and AssertionError where the simulator breaks a rule of its own."""
    log = serve(experiment.trace, experiment.config, LivelyStepTime(experiment.step_time), on_progress=on_progress)
    durations = Timeline(log).duration_s.tolist()
    rows = [
        ReplayStep(
            row["step"], row["t"], duration_s, row["running"], row["waiting"], row["scheduled_tokens"],
            row["blocks_used"], tuple((name, hit) for name, hit in row["admitted"]), tuple(row["preempted"]),
            tuple(row["finished"]),
        )
        for row, duration_s in zip(steps(log), durations, strict=True)
    ]  # fmt: skip
    within = experiment.samples.total_tokens <= experiment.config.max_model_len
    rejected = frozenset(np.flatnonzero(log.rejected & within).tolist())
    return Simulated(log, ReplayLog("simulator", rows, rejected, log.totals()))
