"""The result of a run in which requests wait: what `--json` prints, what `--out` saves and loads back.

The dataclasses have the shape of the JSON. Numbers are rounded as JSON is (`jsontext`), so that a result saved and
loaded equals itself, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from pagesim.sim.allocators import in_order
from pagesim.sim.config import RunConfig
from pagesim.sim.facts import PoolFacts, TraceFacts, pool_facts, versions
from pagesim.sim.saved import SavedResult
from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.figures import REASONS, ServingFigures
from pagesim.sim.serving.run import Served, ServedRuns
from pagesim.sim.stats import Interval, amount, share
from pagesim.sim.trace import Floats

SHARES = ("used", "reserved", "internal", "free", "unusable", "cached")
COUNTS = ("requests", "finished", "unfinished", "rejected", "steps", "preemptions", "preempted_requests",
          "recomputed_tokens")  # fmt: skip
RATES = ("requests_per_s", "output_tokens_per_s", "scheduled_tokens_per_s", "recomputing_s", "span_s")
LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queueing_s")


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution over replications: how many values there were in all, and of how many requests none.

    Mean and percentiles are means over replications of each one's own; `max` is over all. None if there are no values.
    """

    count: int
    missing: int
    mean: Interval | None
    p50: Interval | None
    p90: Interval | None
    p95: Interval | None
    p99: Interval | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why the head of the queue waited: share of the time, and requests that stood there, over all replications."""

    share: Interval
    heads: int


@dataclass(frozen=True, slots=True)
class Series:
    """Means over equal intervals of the whole time, averaged over replications: shares of the pool (`unusable` is part
    of free), requests running and waiting, and the number of preemptions.
    """

    end_s: list[float]
    used: list[float]
    reserved: list[float]
    internal: list[float]
    free: list[float]
    unusable: list[float]
    running: list[float]
    waiting: list[float]
    preemptions: list[float]


@dataclass(frozen=True, slots=True)
class AllocatorResult:
    """One allocator. Counts are sums over replications; finished + unfinished + rejected = requests.

    Rates are per second from the first arrival (or the warm-up's end) to the last token, `span_s`; shares of the pool,
    `running_mean` and `waiting_mean` are means over that time. `occupied` = used + reserved + internal; `unusable` and
    `cached` are parts of free. `prefix`: tokens asked for and found, at first admissions and at returns.
    `prefix_hit_share`: found of asked, all together; None without prefix caching. `percentiles`, from 0 to 100, of all
    replications together. `what_ifs`: by rule, and by name within, sums over replications, peaks the greatest.
    """

    requests: int
    finished: int
    unfinished: int
    rejected: int
    steps: int
    preemptions: int
    preempted_requests: int
    recomputed_tokens: int
    span_s: Interval
    requests_per_s: Interval
    output_tokens_per_s: Interval
    scheduled_tokens_per_s: Interval
    recomputing_s: Interval
    goodput_per_s: Interval | None
    ttft_s: Latency
    tpot_s: Latency
    itl_s: Latency
    e2e_s: Latency
    queueing_s: Latency
    occupied: Interval
    used: Interval
    reserved: Interval
    internal: Interval
    free: Interval
    unusable: Interval
    cached: Interval
    running_mean: Interval
    running_peak: int
    waiting_mean: Interval
    waiting_peak: int
    waited: dict[str, Waiting]
    prefix: dict[str, int]
    prefix_hit_share: Interval | None
    what_ifs: dict[str, dict[str, float]]
    per_run: dict[str, list[float]]
    series: Series
    percentiles: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class ServingResult(SavedResult):
    """A whole run."""

    SCHEMA: ClassVar[str] = "pagesim.serve/1"
    FOR_PICTURES: ClassVar[tuple[str, ...]] = ("series", "percentiles")

    schema: str
    config: dict[str, Any]
    trace: TraceFacts
    pool: PoolFacts
    allocators: dict[str, AllocatorResult]
    versions: dict[str, str]

    @classmethod
    def of(cls, config: RunConfig, runs: ServedRuns) -> Self:
        """Summarise what was computed."""
        names = in_order(runs.served)
        return cls.of_parts(
            config={**config.as_json(), "allocators": names},
            trace=runs.trace,
            pool=pool_facts(config),
            allocators={name: _allocator(runs.served[name]) for name in names},
            versions=versions(),
        )


def _allocator(runs: Sequence[Served]) -> AllocatorResult:
    each = [run.figures for run in runs]

    def over(of: Callable[[ServingFigures], float]) -> Interval:
        return amount([of(one) for one in each])

    shares = {name: [one.pool[name] for one in each] for name in SHARES}
    occupied = [1 - free for free in shares["free"]]
    goodputs = [one.goodput_per_s for one in each if one.goodput_per_s is not None]
    by_name: dict[str, Any] = {name: sum(getattr(one, name) for one in each) for name in COUNTS}
    by_name |= {name: amount([getattr(one, name) for one in each]) for name in RATES}
    by_name |= {name: _latency([getattr(one, name) for one in each]) for name in LATENCIES}
    by_name |= {name: share(values) for name, values in shares.items()}
    return AllocatorResult(
        **by_name,
        goodput_per_s=amount(goodputs) if goodputs else None,
        occupied=share(occupied),
        running_mean=over(lambda one: one.pool["running"]),
        running_peak=max(one.running_peak for one in each),
        waiting_mean=over(lambda one: one.pool["waiting"]),
        waiting_peak=max(one.waiting_peak for one in each),
        waited={reason: _waiting(each, reason) for reason in REASONS.values()},
        prefix={name: sum(one.prefix[name] for one in each) for name in each[0].prefix},
        prefix_hit_share=_hit_share(each),
        what_ifs=_what_ifs(each),
        per_run={
            "output_tokens_per_s": [one.output_tokens_per_s for one in each],
            "occupied": occupied,
            **shares,
            **{f"{name}_p50": [getattr(one, name).p50 or 0.0 for one in each] for name in ("ttft_s", "e2e_s")},
            **_where_all_have(each),
        },
        series=_series(runs),
        percentiles={name: _percentiles(runs, name) for name in ("ttft_s", "tpot_s", "e2e_s")},
    )


def _where_all_have(each: Sequence[ServingFigures]) -> dict[str, list[float]]:
    """One figure for each replication, of those that every replication has."""
    tails = (("ttft_s", "p99"), ("tpot_s", "p50"), ("tpot_s", "p99"), ("itl_s", "p99"), ("e2e_s", "p99"))
    columns: dict[str, list[Any]] = {
        "requests_per_s": [one.requests_per_s for one in each],
        "goodput_per_s": [one.goodput_per_s for one in each],
        "preemptions": [one.preemptions for one in each],
        "recomputed_tokens": [one.recomputed_tokens for one in each],
        **{f"{name}_{part}": [getattr(getattr(one, name), part) for one in each] for name, part in tails},
    }
    return {name: [float(value) for value in values] for name, values in columns.items() if None not in values}


def _latency(each: Sequence[Distribution]) -> Latency:
    known = [one for one in each if one.count]
    values = {
        field.name: amount([getattr(one, field.name) for one in known]) if known else None
        for field in fields(Latency)
        if field.name not in ("count", "missing", "max")
    }
    longest = max((one.max for one in known if one.max is not None), default=None)
    return Latency(sum(one.count for one in each), sum(one.missing for one in each), **values, max=longest)


def _waiting(each: Sequence[ServingFigures], reason: str) -> Waiting:
    shares = [min(1.0, one.waited[reason].time_s / one.span_s) if one.span_s else 0.0 for one in each]
    return Waiting(share(shares), sum(one.waited[reason].heads for one in each))


def _hit_share(each: Sequence[ServingFigures]) -> Interval | None:
    asked = [one.prefix["prefix_queries_first"] + one.prefix["prefix_queries_return"] for one in each]
    found = [one.prefix["prefix_hits_first"] + one.prefix["prefix_hits_return"] for one in each]
    return share([h / q for h, q in zip(found, asked, strict=True)]) if all(asked) else None


def _what_ifs(each: Sequence[ServingFigures]) -> dict[str, dict[str, float]]:
    by_rule = [one.what_ifs.as_json() for one in each]
    return {
        rule: {
            name: max(one[rule][name] for one in by_rule) if "peak" in name else sum(one[rule][name] for one in by_rule)
            for name in counts
        }
        for rule, counts in by_rule[0].items()
        if counts is not None
    }


def _series(runs: Sequence[Served]) -> Series:
    def mean(columns: list[Floats]) -> list[float]:
        means: list[float] = np.mean(columns, axis=0).tolist()
        return means

    names = ("used", "reserved", "internal", "free", "unusable", "running", "waiting")
    return Series(
        mean([run.series.edges_s[1:] for run in runs]),
        **{name: mean([getattr(run.series, name) for run in runs]) for name in names},
        preemptions=mean([run.preemptions.astype(np.float64) for run in runs]),
    )


def _percentiles(runs: Sequence[Served], name: str) -> list[float]:
    """The 0th, 1st, ... 100th, by the rule of Distribution; empty for no values."""
    values = np.sort(np.concatenate([getattr(run, name) for run in runs]))
    if not len(values):
        return []
    places = np.maximum(-(-np.arange(101) * len(values) // 100) - 1, 0)
    percentiles: list[float] = values[places].tolist()
    return percentiles
