"""`pagesim run`: several allocators, one trace, several replications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pagesim.sim.allocators import Pool, allocator_class
from pagesim.sim.config import RunConfig
from pagesim.sim.drawing import Drawn, residence_of
from pagesim.sim.errors import UsageError
from pagesim.sim.measures import Measures, measure
from pagesim.sim.placement import place_all
from pagesim.sim.trace import Trace
from pagesim.sim.workload import parse_load, scaled_to_rate, trace_moments


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All that `pagesim run` computed: `measures[name][r]` is allocator `name` in replication r.

    `sha256[r]` is the hash of the trace of replication r, and so on. `lengths_label` says in words
    what the lengths are; `rate_per_s` is the mean arrival rate (None for a trace at its own times).
    """

    measures: dict[str, list[Measures]]
    sha256: list[str]
    num_requests: list[int]
    span_s: list[float]
    longest_tokens: list[int]
    lengths_label: str
    rate_per_s: float | None
    mean_residence_s: float


def run(
    config: RunConfig, trace: Trace | None = None, check: bool = False, on_progress: Callable[[int], None] | None = None
) -> Runs:
    """Put every allocator of `config` through the same traces.

    `trace` is what was read from `config.trace`. `check` asserts the account of the pool as it goes. `on_progress` is
    told how many requests have been put through one allocator since the last call. Raises UsageError; what an
    allocator raises passes through, with a note that names it.
    """
    source = _Given(config, trace) if trace is not None else Drawn(config)
    pool = Pool(config.pool.tokens, config.max_model_len, config.pool.block_size)
    make = {name: allocator_class(name) for name in config.allocators}
    measures: dict[str, list[Measures]] = {name: [] for name in config.allocators}
    sha256, num_requests, span_s, longest_tokens = [], [], [], []
    for drawn in source.traces():
        residence_s = source.residence.of(drawn)
        sha256.append(drawn.sha256())
        num_requests.append(len(drawn))
        span_s.append(float(drawn.arrival_s[-1]))
        longest_tokens.append(int(drawn.total_tokens.max()))
        for name in config.allocators:
            try:
                log = place_all(drawn, residence_s, make[name](pool), config.growth, check, on_progress)
            except Exception as error:  # someone's own allocator, or a broken invariant: its author needs the traceback
                error.add_note(f"raised by allocator '{name}' in replication {len(measures[name]) + 1}")
                raise
            measures[name].append(
                measure(drawn, residence_s, log, pool.capacity_tokens, pool.max_model_len, config.growth, config.warmup)
            )
    return Runs(
        measures, sha256, num_requests, span_s, longest_tokens, source.label, source.rate_per_s, source.mean_residence_s
    )


def expected_requests(config: RunConfig, trace: Trace | None) -> int:
    """How many requests `run` will put through allocators, in all: what `on_progress` adds up to."""
    count = len(trace) if trace is not None else Drawn(config).workload.num_requests
    return count * config.num_runs * len(config.allocators)


class _Given:
    """A trace that was read, at its own times or scaled to a load."""

    def __init__(self, config: RunConfig, trace: Trace) -> None:
        if len(trace) == 0:
            raise UsageError(f"{config.trace}: an empty trace; accepted: one request or more")
        shortest = int(trace.total_tokens.min())
        limit = config.max_model_len if config.load is not None else max(config.max_model_len, shortest)
        m = trace_moments(trace, limit)  # if all are rejected, and no load asks for a rate, they are just counted
        self.residence = residence_of(config, m)
        self.mean_residence_s = self.residence.mean_s(m)
        self.label = "the trace's own"
        self.rate_per_s = None
        if config.load is not None:
            load = parse_load(config.load)
            self.rate_per_s = load.rate_per_s(self.residence, m, config.pool.tokens, config.max_model_len)
            trace = scaled_to_rate(trace, self.rate_per_s)
        self._trace = trace

    def traces(self) -> Iterator[Trace]:
        yield self._trace
