"""What a load asks for: how many requests arrive in a second, and how long each stays."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.sim.config import QueueConfig, RunConfig
from pagesim.sim.length_pairs import Moments
from pagesim.sim.residence import Residence, decoding, proportional
from pagesim.sim.workload import Load, parse_load, rounded_rate


@dataclass(frozen=True, slots=True)
class Offered:
    """`rate_per_s` is None where no load is given. `mean_residence_s`: of a request that need not wait."""

    rate_per_s: float | None
    mean_residence_s: float


def offered(config: RunConfig, m: Moments) -> Offered:
    """By the load of a run, for requests with moments `m`. Raises UsageError on a load past all reason."""
    load = None if config.load is None else parse_load(config.load)
    if config.queue is not None:
        return _to_a_batch(config, config.queue, load, m)
    residence = residence_of(config, m)
    rate = None if load is None else load.rate_per_s(residence, m, config.pool.tokens, config.max_model_len)
    return Offered(rate, residence.mean_s(m))


def residence_of(config: RunConfig, m: Moments) -> Residence:
    """How long requests with these moments stay once they are placed, by a RunConfig's rule."""
    return proportional(config.mean_residence_s, m) if config.residence == "total" else decoding(config.decode_rate)


def _to_a_batch(config: RunConfig, queue: QueueConfig, load: Load | None, m: Moments) -> Offered:
    """Where requests wait, a load is a multiple of what a batch that is always full would finish."""
    from pagesim.sim.serving.load import full_batch
    from pagesim.sim.serving.steptime import parse_step_time

    slots_each = config.max_model_len if load is not None and load.per == "slot" else None
    batch = full_batch(queue.rules, parse_step_time(queue.step_time), m, slots_each)
    rate = None if load is None else rounded_rate(load.erlangs * batch.rate_per_s / m.share)
    return Offered(rate, batch.mean_residence_s)
