"""What a load asks for: how many requests arrive in a second, and how long each stays."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.sim.config import QueueConfig, RunConfig
from pagesim.sim.length_pairs import Moments
from pagesim.sim.residence import Residence, decoding, proportional
from pagesim.sim.workload import Load, parse_load, rounded_rate


@dataclass(frozen=True, slots=True)
class Offered:
    """`rate_per_s` is None where no load is given. `mean_residence_s`: of a request once it is placed; where requests
    wait, in a batch that is always full. `load`: what the arrivals offer, whatever they were asked to: as a share of
    the pool in tokens, or of what a full batch finishes; None if all arrive at once.
    """

    rate_per_s: float | None
    mean_residence_s: float
    load: float | None


def offered(config: RunConfig, m: Moments, samples_each: float = 1.0, own_rate_per_s: float | None = None) -> Offered:
    """By the load of a run, for requests with moments `m`, each of which asks for `samples_each` answers.

    `own_rate_per_s`: of a trace. Raises UsageError on a load past all reason.
    """
    load = None if config.load is None else parse_load(config.load)
    if config.queue is not None:
        return _to_a_batch(config, config.queue, load, m, samples_each, own_rate_per_s)
    residence = residence_of(config, m)
    pool, longest = config.pool.tokens, config.max_model_len
    rate = None if load is None else load.rate_per_s(residence, m, pool, longest)
    arriving = own_rate_per_s if rate is None else rate
    whole = arriving and m.share * arriving * residence.mean_token_s(m) / pool
    return Offered(rate, residence.mean_s(m), whole)


def residence_of(config: RunConfig, m: Moments) -> Residence:
    """How long requests with these moments stay once they are placed, by a RunConfig's rule."""
    return proportional(config.mean_residence_s, m) if config.residence == "total" else decoding(config.decode_rate)


def _to_a_batch(
    config: RunConfig, queue: QueueConfig, load: Load | None, m: Moments, samples_each: float, own: float | None
) -> Offered:
    """Where requests wait, a load is a multiple of what a batch that is always full would finish."""
    from pagesim.sim.serving.load import full_batch
    from pagesim.sim.serving.steptime import parse_step_time

    step_time = parse_step_time(queue.step_time)
    batch = full_batch(queue.rules, step_time, m)
    if load is None:
        rate = None
    elif load.per == "second":
        rate = load.rate
    else:
        slots_each = config.max_model_len if load.per == "slot" else None
        full = full_batch(queue.rules, step_time, m, slots_each)
        rate = rounded_rate(load.erlangs * full.rate_per_s / (m.share * samples_each))
    arriving = own if rate is None else rate
    return Offered(rate, batch.mean_residence_s, arriving and m.share * samples_each * arriving / batch.rate_per_s)
