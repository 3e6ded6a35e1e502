"""Two saved results beside each other: what differs, by how much, and what may be noise.

Replication r of the one is paired with replication r of the other. With the same seed both saw the same requests, or
the same draws at another load, so that what chance did to both of them falls out of the difference. Each interval is
Student's at 95%. Since many figures are looked at, a difference is called clear only if it stands Holm's test over all
of them at 5%: with that probability at most, one or more is called so though nothing differs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pagesim.sim.errors import UsageError
from pagesim.sim.result import RunResult
from pagesim.sim.saved import load_any
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.stats import CONFIDENCE, Interval, interval

SCHEMA = "pagesim.compare/1"
Result = RunResult | ServingResult


class Verdict(StrEnum):
    """What can be said of a difference."""

    SAME = "same"  # equal in every replication
    NOISE = "noise"  # the interval has 0 in it
    PERHAPS = "perhaps"  # it has not, but one of so many figures may do that by chance
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of one allocator. `difference`: b - a, over the pairs; `p_value`: two-sided, None where all pairs are
    alike.
    """

    allocator: str
    figure: str
    a: float
    b: float
    difference: Interval
    p_value: float | None
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        return {
            "allocator": self.allocator, "figure": self.figure, "a": self.a, "b": self.b,
            "difference": self.difference.as_json(), "p_value": self.p_value, "verdict": self.verdict.value,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """`changed`: options that are not the same, with both values. `same_requests`: every pair saw the same trace."""

    a: str
    b: str
    pairs: int
    same_requests: bool
    changed: dict[str, tuple[Any, Any]]
    differences: tuple[Difference, ...]

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "schema": SCHEMA, "a": self.a, "b": self.b, "pairs": self.pairs, "same_requests": self.same_requests,
            "changed": {name: {"a": a, "b": b} for name, (a, b) in self.changed.items()},
            "differences": [each.as_json() for each in self.differences],
        }  # fmt: skip


def compare(a: Path, b: Path) -> Comparison:
    """Of two files or folders that `pagesim run --out` wrote.

    Raises UsageError if one cannot be read, or they have no figures, allocators or number of replications in common.
    """
    one, other = (load_any(path, (RunResult, ServingResult)) for path in (a, b))
    if type(one) is not type(other):
        raise UsageError(f"{a} is {one.schema} and {b} is {other.schema}; accepted: two of one kind")
    pairs, others = len(one.trace.replications), len(other.trace.replications)
    if pairs != others:
        raise UsageError(f"{a} has {pairs} replications and {b} has {others}; accepted: as many in both (--runs)")
    for path, each in ((a, one), (b, other)):
        _check(path, each, pairs)
    hashes = [[run["sha256"] for run in each.trace.replications] for each in (one, other)]
    found = [
        _difference(label, name, left.per_run[name], right.per_run[name])
        for label, left, right in _matched(one, other)
        for name in left.per_run
        if name in right.per_run
    ]
    changed = _changed(one.config, other.config)
    return Comparison(str(a), str(b), pairs, hashes[0] == hashes[1], changed, tuple(judged(found)))


def _check(path: Path, result: Result, pairs: int) -> None:
    """Raise UsageError if a file was changed by hand: `zip` would fail, or pair what is not a pair."""
    if not all("sha256" in run for run in result.trace.replications):
        raise UsageError(f"{path}: trace.replications without sha256; accepted: as `pagesim run` wrote it")
    for name, each in result.allocators.items():
        if not each.per_run:
            raise UsageError(f"{path}: allocators.{name}.per_run is empty; accepted: as `pagesim run` wrote it")
        for figure, values in each.per_run.items():
            if len(values) != pairs:
                where = f"allocators.{name}.per_run.{figure}"
                raise UsageError(
                    f"{path}: {where} has {len(values)} values; accepted: {pairs}, one for each replication"
                )


def _matched(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """The allocators of both; or, where each has one alone, those two."""
    both = [name for name in one.allocators if name in other.allocators]
    if both:
        return [(name, one.allocators[name], other.allocators[name]) for name in both]
    if len(one.allocators) == len(other.allocators) == 1:
        (left,), (right,) = one.allocators.items(), other.allocators.items()
        return [(f"{left[0]} to {right[0]}", left[1], right[1])]
    raise UsageError(
        f"no allocator is in both: {', '.join(one.allocators)}, and {', '.join(other.allocators)}; accepted: one that "
        "is, or a single one in each"
    )


def _difference(allocator: str, figure: str, a: Sequence[float], b: Sequence[float]) -> Difference:
    pairs = [right - left for left, right in zip(a, b, strict=True)]
    of = interval(pairs)
    return Difference(allocator, figure, interval(a).mean, interval(b).mean, of, _p_value(pairs), Verdict.NOISE)


def _p_value(pairs: Sequence[float]) -> float | None:
    """That the mean of the pairs is 0, by Student's t; None if they have no spread."""
    count, mean = len(pairs), math.fsum(pairs) / len(pairs)
    spread = math.fsum((value - mean) ** 2 for value in pairs)
    if count < 2 or spread == 0:
        return None
    from scipy.special import stdtr

    t = mean / math.sqrt(spread / (count - 1) / count)
    return float(2 * stdtr(count - 1, -abs(t)))


def judged(differences: Sequence[Difference]) -> list[Difference]:
    """With their verdicts: Holm's, over all that have a spread."""
    level = 1 - CONFIDENCE
    values = sorted(each.p_value for each in differences if each.p_value is not None)
    most = 0.0  # the greatest p value that stands the test
    for k, value in enumerate(values):
        if value > level / (len(values) - k):
            break
        most = value
    return [replace(each, verdict=_verdict(each, level, most)) for each in differences]


def _verdict(each: Difference, level: float, most: float) -> Verdict:
    if each.p_value is None:
        if each.difference.mean == 0:
            return Verdict.SAME
        return Verdict.NOISE if each.difference.low is None else Verdict.CLEAR  # one run tells nothing
    if each.p_value <= most:
        return Verdict.CLEAR
    return Verdict.PERHAPS if each.p_value < level else Verdict.NOISE


def _changed(a: dict[str, Any], b: dict[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    changed: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys((*a, *b)):
        left, right = a.get(name), b.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            changed |= _changed(left, right, f"{prefix}{name}.")
        elif left != right:
            changed[prefix + name] = (left, right)
    return changed
