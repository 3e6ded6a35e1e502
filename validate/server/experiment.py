"""What is put on a server: a trace in real time, and what the simulator needs to predict it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace

MOST_REQUESTS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class ServerExperiment:
    """`trace`: a row for each request that is sent, its arrivals in real seconds from the first on. `left_out`:
    requests of the trace that are longer than `max_model_len`, or than the whole pool; neither side gets them.
    """

    trace: Trace
    config: ServingConfig
    step_time: StepTime
    speed: float
    left_out: int

    @classmethod
    def of(
        cls, trace: Trace, config: ServingConfig, step_time: StepTime, speed: float, timeout_s: float
    ) -> ServerExperiment:
        """Samples become requests of their own. Raises UsageError on what cannot end in time, or is too much."""
        samples = independent_samples(trace)
        fits = config.can_serve(samples.prompt_tokens, samples.output_tokens)
        fits &= samples.total_tokens <= config.max_model_len
        kept = samples.take(np.flatnonzero(fits))
        if not len(kept):
            raise UsageError(f"none of {len(samples)} requests fits the server; accepted: shorter ones")
        if len(kept) > MOST_REQUESTS:
            raise UsageError(f"{len(kept)} requests; accepted: up to {MOST_REQUESTS}, by --limit or --requests")
        arrival_s = (kept.arrival_s - kept.arrival_s[0]) / speed
        if arrival_s[-1] >= timeout_s:
            raise UsageError(
                f"the last request comes after {arrival_s[-1]:.4g} s, and --timeout is {timeout_s:g}; accepted: "
                "a longer one, or --speed, --limit or --requests"
            )
        return cls(replace(kept, arrival_s=arrival_s), config, step_time, speed, len(samples) - len(kept))
