"""One point of a sweep, run on whichever machine: the same bytes come out of it anywhere.

Nothing that happens to a point is raised: it is told, as a part of the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from pagesim import __version__
from pagesim.sim.config import RunConfig
from pagesim.sim.errors import PagesimError, UsageError
from pagesim.sim.jsontext import rounded
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.sweep.columns import figures_of
from pagesim.sim.sweep.named_files import check_files
from pagesim.sim.sweep.plan import Point, read_once

Outcome = dict[str, Any]


def run_point(point: Point) -> Outcome:
    """Put all allocators through the trace of a point.

    The outcome: `trace`, what the result says of it; `rows`: the figures of each allocator by name; `errors`: what went
    wrong, of those that have none. If one allocator fails, each of the others is run by itself.
    """
    try:
        if point.version != __version__:
            raise UsageError(f"pagesim {__version__} on a worker; accepted: {point.version}, as where it was planned")
        check_files(point.files)
        return _outcome(point.config)
    except Exception as error:
        names = point.config.allocators
        if len(names) == 1:
            return failed(names, _said(error))
    return merged([run_point(replace(point, config=replace(point.config, allocators=(name,)))) for name in names])


def failed(names: tuple[str, ...], why: str) -> Outcome:
    """The outcome of a point that came to nothing."""
    return {"trace": None, "rows": {}, "errors": dict.fromkeys(names, why)}


def merged(outcomes: list[Outcome]) -> Outcome:
    """Outcomes of one trace with several allocators, as one."""
    whole: Outcome = {"trace": None, "rows": {}, "errors": {}}
    for outcome in outcomes:
        whole["trace"] = whole["trace"] or outcome["trace"]
        for part in ("rows", "errors"):
            whole[part] |= outcome[part]
    return whole


def result_of(config: RunConfig) -> RunResult | ServingResult:
    """Run it. Raises UsageError and TraceError; what someone's own allocator raises passes through."""
    trace = None if config.trace is None else read_once(config)
    if config.queue is None:
        return RunResult.of(config, run(config, trace))
    return ServingResult.of(config, serve_all(config, trace))


def _outcome(config: RunConfig) -> Outcome:
    result = result_of(config)
    rows = {name: figures_of(msgspec.to_builtins(each)) for name, each in result.allocators.items()}
    return {"trace": _trace_facts(msgspec.to_builtins(result.trace)), "rows": rounded(rows), "errors": {}}


def _trace_facts(trace: Mapping[str, Any]) -> dict[str, Any]:
    (replication,) = trace["replications"]
    kept = {name: trace[name] for name in ("samples", "rate_per_s", "offered_load", "mean_residence_s")}
    facts = {"sha256": trace["sha256"], "requests": trace["requests"], "span_s": replication["span_s"], **kept}
    return {f"trace_{name}": value for name, value in facts.items()}


def _said(error: Exception) -> str:
    """One line: the message of a caller's mistake, and of anything else what it is as well."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PagesimError) else f"{type(error).__name__}: {text}"
