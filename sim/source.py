"""Where the requests of a run come from: drawn, or a trace at its own times or scaled to a load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pagesim.sim.config import RunConfig
from pagesim.sim.drawing import Drawn
from pagesim.sim.errors import UsageError
from pagesim.sim.length_pairs import Moments
from pagesim.sim.offered import offered
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.trace import Trace
from pagesim.sim.workload import scaled_to_rate, trace_moments


class Source(Protocol):
    """Traces, one for each replication, and what is to be said of them.

    `label`: what the lengths are, in words. `rate_per_s`: the mean arrival rate; None for a trace at its own times.
    `mean_residence_s`: how long a request stays once it is placed, or in a batch that is full. `num_requests`: in each
    trace. `moments`: of the lengths. `offered`: the load, by the words of `offered.Offered`.
    """

    label: str
    moments: Moments
    rate_per_s: float | None
    mean_residence_s: float
    offered: float | None
    num_requests: int

    def traces(self) -> Iterator[Trace]:
        """Each time the same ones."""


def source(config: RunConfig, trace: Trace | None) -> Source:
    """`trace` is what was read from `config.trace`; without one, requests are drawn. Raises UsageError."""
    return Drawn(config) if trace is None else Given(config, trace)


class Given:
    """A trace that was read, at its own times or scaled to a load."""

    def __init__(self, config: RunConfig, trace: Trace) -> None:
        if len(trace) == 0:
            raise UsageError(f"{config.trace}: an empty trace; accepted: one request or more")
        shortest = int(trace.total_tokens.min())
        samples = independent_samples(trace) if config.queue is not None else trace
        limit = config.max_model_len if config.load is not None else max(config.max_model_len, shortest)
        # if all are rejected, and no load asks for a rate, they are just counted
        self.moments = trace_moments(samples, limit)
        found = offered(config, self.moments, len(samples) / len(trace), trace.mean_rate_per_s)
        self.label = "the trace's own"
        self.mean_residence_s = found.mean_residence_s
        self.rate_per_s = found.rate_per_s
        self.offered = found.load
        self.num_requests = len(trace)
        self._trace = trace if found.rate_per_s is None else scaled_to_rate(trace, found.rate_per_s)

    def traces(self) -> Iterator[Trace]:
        """The one."""
        yield self._trace
