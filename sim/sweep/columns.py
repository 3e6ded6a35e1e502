"""The figures of a run as plain columns, and their types, which are known before anything is run.

An interval of one run is its mean. Nested figures have the names of all levels: `ttft_s_p99`, `at_refusal_asked_mean`,
`waited_no_blocks_share`. Left out is what is not one number: series, percentiles, bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pagesim.sim import result as placed
from pagesim.sim.serving import result as served
from pagesim.sim.serving.figures import REASONS
from pagesim.sim.serving.whatifs import WhatIfs
from pagesim.sim.stats import Interval

MEAN = {"mean", "low", "high"}
PREFIX = ("prefix_queries_first", "prefix_hits_first", "prefix_queries_return", "prefix_hits_return")
TRACE: dict[str, type] = {
    "trace_sha256": str, "trace_requests": int, "trace_span_s": float, "trace_samples": int,
    "trace_rate_per_s": float, "trace_offered_load": float, "trace_mean_residence_s": float,
}  # fmt: skip


def figures_of(allocator: Mapping[str, Any]) -> dict[str, float | int | None]:
    """The figures of one allocator of a result of one run, given as nested plain values."""
    figures: dict[str, float | int | None] = {}
    _flatten(allocator, "", figures)
    return figures


def _flatten(values: Mapping[str, Any], prefix: str, into: dict[str, float | int | None]) -> None:
    for name, value in values.items():
        whole = name if prefix and name.startswith(prefix) else prefix + name.replace(" ", "_")
        if isinstance(value, Mapping):
            if value.keys() == MEAN:
                into[whole] = value["mean"]
            elif name not in ("per_run", "series", "percentiles"):
                _flatten(value, f"{whole}_", into)
        elif isinstance(value, (int, float)):
            into[whole] = value


@cache
def figure_columns(waiting: bool) -> Mapping[str, type]:
    """Column to type, of runs in which requests are refused, or wait."""
    if not waiting:
        return _columns(placed.AllocatorResult, "")
    columns = _columns(served.AllocatorResult, "")
    for reason in REASONS.values():
        columns |= _columns(served.Waiting, f"waited_{reason.replace(' ', '_')}_")
    return columns | dict.fromkeys(PREFIX, int) | _columns(WhatIfs, "what_ifs_")


def _columns(kind: type, prefix: str) -> dict[str, type]:
    columns: dict[str, type] = {}
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint, name = _without_none(hints[field.name]), prefix + field.name
        if hint in (int, float):
            columns[name] = hint
        elif hint is Interval:
            columns[name] = float
        elif isinstance(hint, type) and is_dataclass(hint) and field.name != "series":
            columns |= _columns(hint, f"{name}_")
    return columns


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [part for part in get_args(hint) if part is not type(None)]
    return hint
