"""An experiment: the runs it takes, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pagesim.sim.experiments.row import Row
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.server import OnProgress, serve
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace

Logs = Mapping[str, ServingLog]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What to serve, under which rules, and how long a step takes."""

    trace: Trace
    config: ServingConfig
    step_time: StepTime

    def serve(self, on_progress: OnProgress | None = None) -> ServingLog:
        """Serve it; `on_progress` as in `server.serve`."""
        return serve(self.trace, self.config, self.step_time, on_progress=on_progress)

    def with_step_time(self, step_time: StepTime) -> Run:
        """The same run on another machine."""
        return replace(self, step_time=step_time)

    def with_config(self, **changes: Any) -> Run:
        """The same run under other rules."""
        return replace(self, config=replace(self.config, **changes))


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """`shows`: one sentence on what it is for. `assumed`: what the note does not say and was chosen here.

    `runs` by name. `rows` makes the figures of their logs, which go by the same names.
    """

    name: str
    shows: str
    assumed: str
    runs: Mapping[str, Run]
    rows: Callable[[Logs], list[Row]]

    def run(self, on_progress: OnProgress | None = None) -> list[Row]:
        """Serve every run; the rows. `on_progress` is told of requests that have finished."""
        return self.rows({name: run.serve(on_progress) for name, run in self.runs.items()})

    @property
    def num_requests(self) -> int:
        """Requests of all runs."""
        return sum(len(run.trace) for run in self.runs.values())


def makespan_s(log: ServingLog) -> float:
    """Seconds from the first arrival to the last answer."""
    return float(log.finish_s.max() - log.arrival_s[0])


def tokens_per_s(log: ServingLog) -> float:
    """Answered tokens for each second of the makespan."""
    return int(log.output_tokens.sum()) / makespan_s(log)
