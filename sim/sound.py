"""Whether a saved result has what its figures are drawn of: a file may have been cut, or changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pagesim.sim.errors import UsageError
from pagesim.sim.result import RunResult
from pagesim.sim.serving.result import ServingResult

PERCENTILES = 101
SLACK = 1e-6  # of a share: more than rounding takes away


def check_sound(result: RunResult | ServingResult, path: Path | str) -> None:
    """Raise UsageError, with the first fault by its field, unless it can be drawn as it is."""
    for field, found, accepted in _faults(result):
        raise UsageError(f"{path}: {field} {found}; accepted: {accepted}, as `pagesim run --out` saves it")


def _faults(result: RunResult | ServingResult) -> Iterator[tuple[str, str, str]]:
    if not result.allocators:
        yield "allocators", "is empty", "one or more"
    for name in ("tokens", "num_blocks", "block_size"):
        if getattr(result.pool, name) < 1:
            yield f"pool.{name}", f"is {getattr(result.pool, name)}", "1 or more"
    if isinstance(result, RunResult):
        longest = result.config.get("max_model_len")
        if not isinstance(longest, int) or not 1 <= longest <= result.pool.tokens:
            yield "config.max_model_len", f"is {longest!r:.40}", f"1 to {result.pool.tokens}"
    for name, allocator in result.allocators.items():
        yield from _series(f"allocators.{name}", allocator.series)
        if isinstance(result, RunResult):
            yield from _refusals(f"allocators.{name}", allocator)
        else:
            yield from _percentiles(f"allocators.{name}", allocator)


def _series(of: str, series: Any) -> Iterator[tuple[str, str, str]]:
    many = len(series.end_s)
    if not many:
        yield f"{of}.series.end_s", "is empty", "one or more intervals"
    for each in fields(series):
        values = getattr(series, each.name)
        most = 1 + SLACK if each.name in ("used", "reserved", "internal", "free", "unusable") else float("inf")
        if len(values) != many:
            yield f"{of}.series.{each.name}", f"has {len(values)} values", f"{many}, one for each of end_s"
        if wrong := [value for value in values if not -SLACK <= value <= most]:
            yield f"{of}.series.{each.name}", f"has {wrong[0]:g}", "0 or more, shares up to 1"


def _refusals(of: str, allocator: Any) -> Iterator[tuple[str, str, str]]:
    if len(allocator.occupied_at_refusal) not in (0, PERCENTILES):
        yield f"{of}.occupied_at_refusal", f"has {len(allocator.occupied_at_refusal)} values", f"none, or {PERCENTILES}"
    for each in allocator.refused_by_length:
        if not 0 <= each.refused <= each.requests or each.requests < 1:
            yield f"{of}.refused_by_length", f"has {each.refused} of {each.requests} refused", "some of 1 or more"


def _percentiles(of: str, allocator: Any) -> Iterator[tuple[str, str, str]]:
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        many = len(allocator.percentiles.get(name, [0]))
        if many not in (0, PERCENTILES):
            yield f"{of}.percentiles.{name}", f"has {many} values, or is missing", f"none, or {PERCENTILES}"
