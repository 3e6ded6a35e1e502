"""The knee: the rate of arrivals at which the engine saturates, by the step times of a profile."""

from __future__ import annotations

from pagesim.sim.length_pairs import Moments
from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.load import full_batch
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace
from pagesim.sim.workload import trace_moments


def knee_rate_per_s(trace: Trace, config: ServingConfig, step_time: StepTime) -> float:
    """Requests a second of `trace` that a batch which is always full would finish: what `--load 1` of the queue means.

    A sequence holds what its allocator gives it: what it has filled, all it will fill, or a reservation.
    """
    samples = independent_samples(trace)
    m = trace_moments(samples, config.max_model_len)
    batch = full_batch(config, step_time, m, _slots_each(config, m))
    return batch.rate_per_s * len(trace) / len(samples)


def sequences_at_once(trace: Trace, config: ServingConfig) -> int:
    """In a batch that is full, rounded up."""
    m = trace_moments(independent_samples(trace), config.max_model_len)
    slots = _slots_each(config, m) or (m.po + m.oo / 2) / m.o
    return max(1, min(config.max_num_seqs, int(config.usable_tokens / slots) + 1))


def _slots_each(config: ServingConfig, m: Moments) -> float | None:
    if config.allocator == PAGED:
        return None
    if config.allocator == "reservation":
        return config.max_model_len
    return (m.po + m.oo) / m.o  # P + O, weighed by the steps that it is held
