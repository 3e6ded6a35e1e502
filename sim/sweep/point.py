"""One point of a sweep, run on whichever machine: the same bytes come out of it anywhere.

Nothing that happens to a point is raised: it is told, as a part of the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from pagesim.sim.sweep.trace_once import read_once
from pagesim.sim.trace import Trace

Outcome = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One variant with one seed, all allocators on the same trace.

    `files`: those that the configuration names, with the hash of each; `requests`: how many are put through allocators.
    """

    key: str
    config: RunConfig
    files: Mapping[str, str]
    requests: int = 0
    version: str = __version__

    def run(self) -> Outcome:
        """The outcome: `trace`, what the result says of it; `rows`: the figures of each allocator by name; `errors`:
        what went wrong, of those that have none. If one allocator fails, each of the others is run by itself.
        """
        names = self.config.allocators
        try:
            check_worker(self.version, self.files)
            return _outcome(self.config)
        except (Exception, SystemExit) as error:  # your own allocator may do anything
            if len(names) == 1:
                return failed(names, said(error))
        return merged([replace(self, config=replace(self.config, allocators=(name,))).run() for name in names])

    def lost(self, why: str) -> Outcome:
        """What is told of it if it never comes back from a worker."""
        return failed(self.config.allocators, why)


def check_worker(version: str, files: Mapping[str, str]) -> None:
    """Raise UsageError if this machine has another pagesim, or other files, than the one where all was planned."""
    if version != __version__:
        raise UsageError(f"pagesim {__version__} on a worker; accepted: {version}, as where it was planned")
    check_files(files)


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


def result_of(config: RunConfig, trace: Trace | None) -> RunResult | ServingResult:
    """Run it. Raises UsageError and TraceError; what someone's own allocator raises passes through."""
    if config.queue is None:
        return RunResult.of(config, run(config, trace))
    return ServingResult.of(config, serve_all(config, trace))


def _outcome(config: RunConfig) -> Outcome:
    result = result_of(config, read_once(config))
    rows = {name: figures_of(msgspec.to_builtins(each)) for name, each in result.allocators.items()}
    return {"trace": trace_facts(result), "rows": rounded(rows), "errors": {}}


def trace_facts(result: RunResult | ServingResult) -> dict[str, Any]:
    """What a result of one run says of its trace, as columns."""
    trace = msgspec.to_builtins(result.trace)
    (replication,) = trace["replications"]
    kept = {name: trace[name] for name in ("samples", "rate_per_s", "offered_load", "mean_residence_s")}
    facts = {"sha256": trace["sha256"], "requests": trace["requests"], "span_s": replication["span_s"], **kept}
    return {f"trace_{name}": value for name, value in facts.items()}


def said(error: BaseException) -> str:
    """One line: the message of a caller's mistake, and of anything else what it is as well."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PagesimError) else f"{type(error).__name__}: {text}"
