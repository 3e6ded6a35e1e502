"""What a run was like for those who asked: latencies, throughput, and what the pool and the queue did meanwhile.

Everything runs to its end, so nobody is unfinished; who was rejected has no latency, and is counted as missing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from pagesim.sim.serving.account import PoolMeans, pool_means
from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.latency import intervals, since_arrival, time_per_output_token
from pagesim.sim.serving.log import Rows, ServingLog
from pagesim.sim.serving.scheduler import Stop
from pagesim.sim.serving.slo import Slo
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.serving.whatifs import WhatIfs

POOL = tuple(field.name for field in fields(PoolMeans) if field.name != "edges_s")
REASONS = {
    Stop.NO_BLOCKS: "no blocks",
    Stop.NO_SEQUENCE: "max_num_seqs",
    Stop.NO_BUDGET: "token budget",
    Stop.PREEMPTED: "preemption",
}


@dataclass(frozen=True, slots=True)
class Waited:
    """Seconds for which somebody waited, and requests that stood at the head of the queue meanwhile."""

    time_s: float
    heads: int


@dataclass(frozen=True, slots=True)
class ServingFigures:
    """Figures of a run. `span_s`: from the first arrival, or the end of the warm-up, to the last token; rates are per
    second of it, and `pool` is the mean over it. Times in seconds.

    Distributions, `requests` and what became of them are of those that arrived within the span. `recomputing_s`: how
    much shorter all steps together would be without recomputed tokens. `waited`: by why the head of the queue was not
    admitted, the time for which somebody waited, and how many requests were at the head meanwhile. `blocks_peak`,
    `running_peak`, `waiting_peak`: at the same step or not. `what_ifs`: of the whole run. Behind an allocator of
    contiguous runs, a block is a slot.
    """

    requests: int
    finished: int
    unfinished: int
    rejected: int
    steps: int
    span_s: float
    requests_per_s: float
    output_tokens_per_s: float
    scheduled_tokens_per_s: float
    goodput_per_s: float | None
    ttft_s: Distribution
    tpot_s: Distribution
    itl_s: Distribution
    e2e_s: Distribution
    queueing_s: Distribution
    preemptions: int
    preempted_requests: int
    recomputed_tokens: int
    recomputing_s: float
    prefix: dict[str, int]
    what_ifs: WhatIfs
    waited: dict[str, Waited]
    pool: dict[str, float]
    blocks_peak: int
    running_peak: int
    waiting_peak: int

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        return asdict(self)


def figures(
    log: ServingLog, slo: Slo | None = None, since_s: float = 0.0, line: Timeline | None = None
) -> ServingFigures:
    """All figures of a run, or of what comes after a warm-up of `since_s`; goodput is None without objectives.

    `line`: the timeline of `log`, where it is at hand.
    """
    first_step, segments = _since(log, since_s)
    counted, done = log.arrival_s >= since_s, ~np.isnan(log.finish_s)
    begin_s = max(since_s, float(log.arrival_s[0])) if len(log.arrival_s) else since_s
    span_s = max(log.end_s - begin_s, 0.0)
    per_s = 1 / span_s if span_s else 0.0
    ended = log.finish_s >= since_s  # false for NaN
    line = line or Timeline(log)
    means = pool_means(line, np.array([begin_s, begin_s + span_s]))
    totals = log.totals(first_step)
    preemptions = log.preemptions["row"][log.preemptions["step"] >= first_step]
    return ServingFigures(
        requests=int(counted.sum()),
        finished=int((counted & done).sum()),
        unfinished=int((counted & ~done & ~log.rejected).sum()),
        rejected=int((counted & log.rejected).sum()),
        steps=int(segments["steps"].sum()),
        span_s=span_s,
        requests_per_s=float(ended.sum()) * per_s,
        output_tokens_per_s=int(log.output_tokens[ended].sum()) * per_s,
        scheduled_tokens_per_s=totals["scheduled_tokens"] * per_s,
        goodput_per_s=None if slo is None else float((slo.kept(log) & ended).sum()) * per_s,
        ttft_s=since_arrival(log, log.first_token_s, counted),
        tpot_s=time_per_output_token(log, counted),
        itl_s=intervals(log, since_s),
        e2e_s=since_arrival(log, log.finish_s, counted),
        queueing_s=since_arrival(log, log.admitted_s, counted),
        preemptions=len(preemptions),
        preempted_requests=len(np.unique(preemptions)),
        recomputed_tokens=totals["recomputed_tokens"],
        recomputing_s=float(log.recomputing["seconds"][log.recomputing["step"] >= first_step].sum()),
        prefix={name: count for name, count in totals.items() if name.startswith("prefix_")},
        what_ifs=log.what_ifs,
        waited=_waited(line, first_step),
        pool={name: float(getattr(means, name)[0]) for name in POOL},
        blocks_peak=totals["peak_blocks_used"],
        running_peak=totals["peak_running"],
        waiting_peak=int(line.waiting[first_step:].max(initial=0)),
    )


def _since(log: ServingLog, since_s: float) -> tuple[int, Rows]:
    """The first step that starts at `since_s` or later, if a stretch of steps does, and those stretches."""
    first = int(np.searchsorted(log.segments["start_s"], since_s, side="left"))
    return int(log.segments["steps"][:first].sum()), log.segments[first:]


def _waited(line: Timeline, first_step: int) -> dict[str, Waited]:
    """From `first_step` on, by the reason of each step, also where who waits came while like steps were run.

    Who came in next was at the head.
    """
    waiting, stops = line.waiting > 0, line.stops
    waiting[:first_step] = False
    waited = {}
    for stop, name in REASONS.items():
        steps = np.flatnonzero(waiting & (stops == stop))
        next_in = np.searchsorted(line.log.admissions["step"], steps, side="right")
        waited[name] = Waited(float(line.duration_s[steps].sum()), len(np.unique(next_in)))
    return waited
