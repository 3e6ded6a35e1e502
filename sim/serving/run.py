"""`pagesim run --on-full queue`: several allocators behind one scheduler, one trace, several replications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pagesim.sim.config import RunConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.facts import TraceFacts, replication_facts, trace_facts
from pagesim.sim.serving.account import PoolMeans, pool_means
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.figures import ServingFigures, figures
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.slo import Slo, parse_slo
from pagesim.sim.serving.steptime import StepTime, parse_step_time
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.source import source
from pagesim.sim.trace import Floats, Ints, Trace

SERIES_INTERVALS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """One allocator, one replication. `series`: over equal intervals from 0 to the last end of all allocators;
    `preemptions` in each. Latencies of the requests that have them, float64 seconds, for pictures.
    """

    figures: ServingFigures
    series: PoolMeans
    preemptions: Ints
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ServedRuns:
    """All that was computed: `served[name][r]` is allocator `name` in replication r."""

    served: dict[str, list[Served]]
    trace: TraceFacts


OnLog = Callable[[str, ServingLog], None]


def serve_all(
    config: RunConfig,
    trace: Trace | None = None,
    check: bool = False,
    on_progress: Callable[[int], None] | None = None,
    on_log: OnLog | None = None,
) -> ServedRuns:
    """Serve the same traces with every allocator of `config`, whose `queue` says how.

    `trace` is what was read from `config.trace`. `check` asserts the account of the pool as it goes. `on_progress` is
    told how many requests one allocator has finished since the last call. `on_log` gets every log, with the name of the
    allocator. Raises UsageError.
    """
    queue = config.queue
    if queue is None:
        raise UsageError("a run without a queue; accepted: a RunConfig with on_full 'queue' and a QueueConfig")
    step_time, slo = parse_step_time(queue.step_time), None if queue.slo is None else parse_slo(queue.slo)
    found = source(config, trace)
    served: dict[str, list[Served]] = {name: [] for name in config.allocators}
    facts, longest_tokens, samples = [], 0, 0
    for drawn in found.traces():
        facts.append(replication_facts(drawn))
        longest_tokens = max(longest_tokens, int(drawn.total_tokens.max()))
        samples = samples or drawn.num_samples
        last_arrival_s = float(drawn.arrival_s[-1])
        logs = {
            name: _serve(drawn, queue.rules_for(name), step_time, name, check, on_progress)
            for name in config.allocators
        }
        end_s = max(last_arrival_s, *(log.end_s for log in logs.values()))
        edges_s = np.linspace(0, end_s or 1.0, SERIES_INTERVALS + 1)
        for name, log in logs.items():
            served[name].append(_served(log, slo, config.warmup * last_arrival_s, edges_s))
            if on_log is not None:
                on_log(name, log)
    return ServedRuns(served, trace_facts(found, facts, longest_tokens, samples))


def _serve(
    trace: Trace,
    rules: ServingConfig,
    step_time: StepTime,
    name: str,
    check: bool,
    on_progress: Callable[[int], None] | None,
) -> ServingLog:
    try:
        return serve(trace, rules, step_time, on_progress=on_progress, check=check)
    except UsageError:
        raise
    except Exception as error:  # someone's own allocator, or a broken invariant: its author needs the traceback
        error.add_note(f"raised while allocator '{name}' served")
        raise


def _served(log: ServingLog, slo: Slo | None, since_s: float, edges_s: Floats) -> Served:
    line = Timeline(log)
    preempted_s = line.start_s[log.preemptions["step"]]
    counted = (log.arrival_s >= since_s) & ~np.isnan(log.finish_s)
    gaps = log.output_tokens[counted] - 1
    first_s, finish_s = log.first_token_s[counted], log.finish_s[counted]
    return Served(
        figures(log, slo, since_s, line),
        pool_means(line, edges_s),
        np.histogram(preempted_s, edges_s)[0],
        first_s - log.arrival_s[counted],
        (finish_s - first_s)[gaps > 0] / gaps[gaps > 0],
        finish_s - log.arrival_s[counted],
    )
