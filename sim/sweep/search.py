"""One search for the highest load: one allocator, one seed. And, of a trace, for the number of cards it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pagesim import __version__
from pagesim.sim.config import RunConfig
from pagesim.sim.sweep.bisection import highest_load, least_cards
from pagesim.sim.sweep.columns import figures_of
from pagesim.sim.sweep.objective import Objective
from pagesim.sim.sweep.point import Outcome, check_worker, failed, result_of, said
from pagesim.sim.sweep.routing import Route, shares
from pagesim.sim.sweep.trace_once import read_once
from pagesim.sim.trace import Trace

MOST_CARDS = 4096
PREFIX = {
    "asked": ("prefix_queries_first", "prefix_queries_return"),
    "found": ("prefix_hits_first", "prefix_hits_return"),
}
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Search:
    """`config`: of one allocator; its load has no say. `requests`: 1, as nobody knows how many runs it takes."""

    key: str
    config: RunConfig
    objective: Objective
    precision: float
    route: Route
    files: Mapping[str, str]
    requests: int = 1
    version: str = __version__

    def run(self) -> Outcome:
        """The outcome, as of a point; `rows` has what was found."""
        try:
            check_worker(self.version, self.files)
            trace = read_once(self.config)
            found = self._load(trace) | (self._cards(trace) if trace is not None else {})
        except (Exception, SystemExit) as error:  # your own allocator may do anything
            return failed(self.config.allocators, said(error))
        return {"trace": None, "rows": {self.config.allocators[0]: found}, "errors": {}}

    def lost(self, why: str) -> Outcome:
        """What is told of it if it never comes back from a worker."""
        return failed(self.config.allocators, why)

    def _load(self, trace: Trace | None) -> Figures:
        at: dict[float, Figures] = {}

        def holds(load: float) -> bool:
            at[load] = _run(replace(self.config, load=f"{load:.6g}"), trace)
            return self.objective.holds(at[load])

        found = highest_load(holds, self.precision)
        row: Figures = {"state": found.state.value, "load": found.load, "tried": found.tried}
        if found.load is not None:
            there = at[found.load]
            row |= {"rate_per_s": there["trace_rate_per_s"], "figures": self.objective.values(there)} | _counted(
                [there]
            )
        return row

    def _cards(self, trace: Trace) -> Figures:
        """At the trace's own times; every card must hold the objective."""
        at: dict[int, list[Figures]] = {}

        def holds(cards: int) -> bool:
            at[cards] = []
            for share in shares(trace, cards, self.route):
                at[cards].append(_run(replace(self.config, load=None), share))
                if not self.objective.holds(at[cards][-1]):
                    return False
            return True

        cards = least_cards(holds, min(len(trace), MOST_CARDS))
        row: Figures = {"cards": cards, "own_rate_per_s": trace.mean_rate_per_s}
        if cards is not None:
            row["on_cards"] = self._worst(at[cards]) | _counted(at[cards])
            row["one_less"] = None if cards == 1 else self._worst(at[cards - 1])
        return row

    def _worst(self, runs: list[Figures]) -> Figures:
        each = [self.objective.values(figures) for figures in runs]
        return {"worst": {name: max(values[name] for values in each) for name in each[0]}}


def _run(config: RunConfig, trace: Trace | None) -> Figures:
    result = result_of(config, trace)
    (allocator,) = result.allocators.values()
    return figures_of(msgspec.to_builtins(allocator)) | {"trace_rate_per_s": result.trace.rate_per_s}


def _counted(runs: list[Figures]) -> Figures:
    """Of all runs together: the share of the requests that were rejected, and of the prompt tokens that were found."""
    requests, rejected = (sum(run[name] for run in runs) for name in ("requests", "rejected"))
    asked, found = (sum(run.get(name, 0) for run in runs for name in names) for names in PREFIX.values())
    return {"rejected_share": rejected / max(1, requests), "prefix_hit_share": found / asked if asked else None}
