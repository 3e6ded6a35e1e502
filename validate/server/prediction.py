"""What the simulator says a server will do: the same requests, the server's own pool, and a model of its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.latency import since_arrival, time_per_output_token
from pagesim.sim.serving.server import serve
from pagesim.validate.server.experiment import ServerExperiment


@dataclass(frozen=True, slots=True)
class Prediction:
    """`totals`: by the names of the recordings' format. `duration_s`: from the first arrival to the last token."""

    totals: dict[str, int]
    ttft: Distribution
    tpot: Distribution
    duration_s: float


def predict(experiment: ServerExperiment, on_progress: Callable[[int], None] = lambda requests: None) -> Prediction:
    """Serve the trace in the simulator. Raises UsageError."""
    log = serve(experiment.trace, experiment.config, experiment.step_time, on_progress=on_progress)
    everybody = np.ones(len(experiment.trace), np.bool_)
    return Prediction(
        log.totals(),
        since_arrival(log, log.first_token_s, everybody),
        time_per_output_token(log, everybody),
        float(log.end_s),
    )
