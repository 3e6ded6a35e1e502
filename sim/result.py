"""The result of a run: what `--json` prints, what `--out` saves and loads back, what tables and figures are made from.

The dataclasses have the shape of the JSON. Numbers are rounded as JSON is (`jsontext`), so that a result saved and
loaded equals itself, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from pagesim.sim.allocators import in_order
from pagesim.sim.config import RunConfig
from pagesim.sim.facts import PoolFacts, TraceFacts, pool_facts, versions
from pagesim.sim.measures import AtRefusal, Measures, length_edges
from pagesim.sim.run import Runs
from pagesim.sim.saved import SavedResult
from pagesim.sim.stats import Interval, amount, interval, share
from pagesim.sim.trace import Floats

PARTS = ("used", "reserved", "internal", "free")


@dataclass(frozen=True, slots=True)
class LengthBin:
    """Requests of from_tokens up to, not including, to_tokens in all: how many there were, and were refused."""

    from_tokens: int
    to_tokens: int
    requests: int
    refused: int


@dataclass(frozen=True, slots=True)
class Series:
    """Means over equal intervals of the whole time, as shares of the pool, averaged over replications.

    `unusable` is part of free: what those refused in the interval could not use though it was enough in total, in the
    mean over them; 0 where nobody was refused.
    """

    end_s: list[float]
    used: list[float]
    reserved: list[float]
    internal: list[float]
    free: list[float]
    unusable: list[float]


@dataclass(frozen=True, slots=True)
class AllocatorResult:
    """One allocator. Counts are sums over replications: admitted + refused + rejected + dropped = requests.

    `refused_share` and `dropped_share` are of the requests that could ever be served, `refused_token_share` of their
    tokens, `rejected_share` of all requests. `occupied` to `free` are shares of the pool over the time from warm-up to
    the last arrival; `steady_occupied` over its last half, and `steady_sequences` the requests placed at once in it.
    `at_refusal` is None if nothing was refused; `occupied_at_refusal`: its percentiles from 0 to 100. `per_run` has one
    figure for each replication, for paired comparisons.
    """

    requests: int
    admitted: int
    refused: int
    rejected: int
    dropped: int
    refused_share: Interval
    refused_token_share: Interval
    dropped_share: Interval
    rejected_share: Interval
    occupied: Interval
    used: Interval
    reserved: Interval
    internal: Interval
    free: Interval
    steady_occupied: Interval
    steady_sequences: Interval
    at_refusal: AtRefusal | None
    moved_tokens: int
    refused_by_length: list[LengthBin]
    per_run: dict[str, list[float]]
    series: Series
    occupied_at_refusal: list[float]


@dataclass(frozen=True, slots=True)
class RunResult(SavedResult):
    """A whole run."""

    SCHEMA: ClassVar[str] = "pagesim.run/1"
    FOR_PICTURES: ClassVar[tuple[str, ...]] = ("series", "occupied_at_refusal")

    schema: str
    config: dict[str, Any]
    trace: TraceFacts
    pool: PoolFacts
    allocators: dict[str, AllocatorResult]
    versions: dict[str, str]

    @classmethod
    def of(cls, config: RunConfig, runs: Runs) -> Self:
        """Summarise what was computed."""
        names = in_order(runs.measures)
        return cls.of_parts(
            config={**config.as_json(), "allocators": names},
            trace=runs.trace,
            pool=pool_facts(config),
            allocators={name: _allocator(runs.measures[name], config.max_model_len) for name in names},
            versions=versions(),
        )


def _allocator(runs: list[Measures], max_model_len: int) -> AllocatorResult:
    def total(of: Callable[[Measures], int]) -> int:
        return sum(map(of, runs))

    means = {part: [float(getattr(run.means, part)[0]) for run in runs] for part in ("occupied", *PARTS)}
    refused = [run.refused_share for run in runs]
    return AllocatorResult(
        requests=total(lambda run: run.requests),
        admitted=total(lambda run: run.admitted),
        refused=total(lambda run: run.refused),
        rejected=total(lambda run: run.rejected),
        dropped=total(lambda run: run.dropped),
        refused_share=share(refused),
        refused_token_share=share([run.refused_token_share for run in runs]),
        dropped_share=share([run.dropped_share for run in runs]),
        rejected_share=share([run.rejected_share for run in runs]),
        **{part: share(values) for part, values in means.items()},
        steady_occupied=share([float(run.steady.occupied[0]) for run in runs]),
        steady_sequences=amount([run.steady_sequences for run in runs]),
        at_refusal=_mean_at_refusal([run.at_refusal for run in runs if run.at_refusal is not None]),
        moved_tokens=total(lambda run: run.moved_tokens),
        refused_by_length=_bins(runs, max_model_len),
        per_run={
            "refused_share": refused,
            **means,
            "refused_token_share": [run.refused_token_share for run in runs],
            "dropped_share": [run.dropped_share for run in runs],
            "steady_sequences": [run.steady_sequences for run in runs],
        },
        series=_series(runs),
        occupied_at_refusal=_percentiles(np.concatenate([run.occupied_at_refusal for run in runs])),
    )


def _mean_at_refusal(each: Sequence[AtRefusal]) -> AtRefusal | None:
    if not each:
        return None
    rows = [asdict(row) for row in each]
    columns = {name: [row[name] for row in rows if row[name] is not None] for name in rows[0]}
    return AtRefusal(**{name: interval(values).mean if values else None for name, values in columns.items()})  # type: ignore[arg-type]


def _percentiles(values: Floats) -> list[float]:
    """The 0th, 1st, ... 100th; empty for no values."""
    percentiles: list[float] = np.percentile(values, np.arange(101)).tolist() if len(values) else []
    return percentiles


def _bins(runs: Sequence[Measures], max_model_len: int) -> list[LengthBin]:
    edges = length_edges(max_model_len).tolist()
    offered = np.sum([run.offered_by_length for run in runs], axis=0).tolist()
    refused = np.sum([run.refused_by_length for run in runs], axis=0).tolist()
    rows = zip(edges, edges[1:], offered, refused, strict=False)
    return [LengthBin(low, high, requests, no) for low, high, requests, no in rows if requests]


def _series(runs: Sequence[Measures]) -> Series:
    mean = {part: np.mean([getattr(run.series, part) for run in runs], axis=0).tolist() for part in PARTS}
    unusable = np.mean([run.unusable_series for run in runs], axis=0).tolist()
    return Series(np.mean([run.series.edges_s[1:] for run in runs], axis=0).tolist(), **mean, unusable=unusable)
