"""Traces drawn as a configuration asks: for a load that they offer to a pool, or for a plain rate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pagesim.sim.arrivals import parse_arrivals
from pagesim.sim.config import MAX_REQUESTS, RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.length_pairs import IndependentLengths, LengthPairs, ListedLengths, TotalLengths
from pagesim.sim.lengths import parse_lengths
from pagesim.sim.offered import offered
from pagesim.sim.rate_windows import RateWindows
from pagesim.sim.trace import Trace
from pagesim.sim.workload import Workload, default_requests

FILE = "file:"


class Drawn:
    """Traces that offer the load of a RunConfig, from independent streams of its seed. Raises UsageError."""

    def __init__(self, config: RunConfig) -> None:
        lengths = request_lengths(config.workload, config.max_model_len)
        self.moments = lengths.moments(config.max_model_len)
        found = offered(config, self.moments)
        assert found.rate_per_s is not None, "requests are drawn at a load"
        self.label = lengths.label
        self.mean_residence_s = found.mean_residence_s
        self.offered = found.load
        self.rate_per_s: float | None = found.rate_per_s
        self.num_requests = config.workload.num_requests or default_requests(found.rate_per_s, found.mean_residence_s)
        self.workload = Workload(lengths, parse_arrivals(config.workload.arrivals), found.rate_per_s, self.num_requests)
        self._seeds = np.random.SeedSequence(config.seed).spawn(config.num_runs)

    def traces(self) -> Iterator[Trace]:
        """One for each replication."""
        return map(self.workload.draw, self._seeds)


def draw_at_rate(
    workload: WorkloadConfig, max_model_len: int, seed: int, rate_per_s: float | None, duration_s: float | None
) -> Trace:
    """One trace at a plain rate, a ServeGen file's own if `rate_per_s` is None.

    As long as `workload.num_requests` or `duration_s` says, or all windows of a ServeGen file. Raises UsageError if
    that leaves rate or length open.
    """
    arrivals, lengths = parse_arrivals(workload.arrivals), request_lengths(workload, max_model_len)
    if isinstance(arrivals, RateWindows):
        rate_per_s = rate_per_s or arrivals.mean_rate_per_s
        duration_s = duration_s or (None if workload.num_requests else arrivals.span_s)
    if rate_per_s is None:
        raise UsageError("no rate given; accepted: --rate R, --load L, or --arrivals servegen:FILE")
    if workload.num_requests is None and duration_s is None:
        raise UsageError("no length given; accepted: --requests N, --duration S, or --load L")
    for name, value in (("--rate", rate_per_s), ("--duration", duration_s)):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{name} {value:g}; accepted: more than 0")
    stream = np.random.SeedSequence(seed)
    if duration_s is None:
        return Workload(lengths, arrivals, rate_per_s, workload.num_requests or 1).draw(stream.spawn(1)[0])
    count = 16 + int(1.2 * rate_per_s * duration_s)
    if count > MAX_REQUESTS:
        raise UsageError(
            f"--duration {duration_s:g} at {rate_per_s:g}/s: {count:,} requests; accepted: {MAX_REQUESTS:,}"
        )
    while True:
        trace = Workload(lengths, arrivals, rate_per_s, count).draw(np.random.SeedSequence(seed).spawn(1)[0])
        if trace.arrival_s[-1] > duration_s:
            inside = np.flatnonzero(trace.arrival_s <= duration_s)
            if len(inside) == 0:
                raise UsageError(f"nothing arrives within {duration_s:g} s at {rate_per_s:g} requests/s")
            return trace.take(inside)
        count *= 2


def request_lengths(workload: WorkloadConfig, max_model_len: int) -> LengthPairs:
    """What a WorkloadConfig calls its lengths. Raises UsageError if it contradicts itself or names nothing known."""
    if (workload.prompt_lengths is None) != (workload.output_lengths is None):
        raise UsageError("--prompt-lengths and --output-lengths come together, or not at all")
    if workload.prompt_lengths is not None and workload.output_lengths is not None:
        prompt = parse_lengths(workload.prompt_lengths, max_model_len, workload.truncation)
        return IndependentLengths(prompt, parse_lengths(workload.output_lengths, max_model_len, workload.truncation))
    if workload.lengths.startswith(FILE):
        from pagesim.sim.formats import read_lengths

        path = workload.lengths.removeprefix(FILE)
        return ListedLengths(*read_lengths(Path(path)), f"pairs of {Path(path).name}")
    return TotalLengths(parse_lengths(workload.lengths, max_model_len, workload.truncation), workload.prompt_share)
