"""An objective of a whole run, like refused<1% or ttft_p99<2s: which figure, and what it must stay under."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.run_table import seconds
from pagesim.sim.setting import percent

SHARES = {  # word: (figure, whether requests wait)
    "refused": ("refused_share", False),
    "refused_tokens": ("refused_token_share", False),
    "dropped": ("dropped_share", False),
    "preemptions": ("preemptions_each", True),
}
LATENCY = re.compile(r"(ttft|tpot|itl|e2e|queueing)_(p50|p90|p95|p99|mean|max)")
TERM = re.compile(r"([a-z0-9_]+)<([0-9.eE+-]+)(%|ms|s|)")
ACCEPTED = "terms like refused<1%, preemptions<1%, ttft_p99<2s, tpot_p50<50ms, joined by commas"
UNITS = {"%": 0.01, "": 1.0, "s": 1.0, "ms": 1e-3}


@dataclass(frozen=True, slots=True)
class Term:
    """`figure`, as `figures_of` names it (`preemptions_each`: preemptions for each request), is under `limit`."""

    text: str
    figure: str
    limit: float
    waiting: bool

    def value(self, figures: Mapping[str, float | int | None]) -> float | None:
        """Of a run; None if nothing was served that could have it."""
        if self.figure != "preemptions_each":
            return figures.get(self.figure)
        return (figures["preemptions"] or 0) / max(1, figures["requests"] or 0)

    def said(self, value: float) -> str:
        """A value of the figure, in words."""
        return percent(value) if self.text.split("<")[0] in SHARES else seconds(value)


@dataclass(frozen=True, slots=True)
class Objective:
    """All of these. Either requests wait in all terms (`waiting`), or in none."""

    text: str
    terms: tuple[Term, ...]
    waiting: bool

    def holds(self, figures: Mapping[str, float | int | None]) -> bool:
        """Whether every term does. Raises UsageError if a figure has no value: nothing was served."""
        return all(self._value(term, figures) < term.limit for term in self.terms)

    def values(self, figures: Mapping[str, float | int | None]) -> dict[str, float]:
        """The figures of the terms, by figure."""
        return {term.figure: self._value(term, figures) for term in self.terms}

    def _value(self, term: Term, figures: Mapping[str, float | int | None]) -> float:
        value = term.value(figures)
        if value is None:
            raise UsageError(f"{term.text}: no request has such a figure: none was served, or with one token each")
        return value


def parse_objective(text: str) -> Objective:
    """Terms joined by commas. Raises UsageError on anything else, or on terms of both disciplines."""
    terms = tuple(_term(part, text) for part in text.replace(" ", "").split(","))
    if len({term.waiting for term in terms}) > 1:
        raise UsageError(
            f"--slo '{text}': requests are refused, or wait; accepted: terms of one kind, refused, refused_tokens and "
            "dropped, or preemptions and times"
        )
    if len({term.figure for term in terms}) < len(terms):
        raise UsageError(f"--slo '{text}'; accepted: each figure once")
    return Objective(",".join(term.text for term in terms), terms, terms[0].waiting)


def _term(part: str, whole: str) -> Term:
    found = TERM.fullmatch(part)
    refused = UsageError(f"--slo '{whole}': '{part}'; accepted: {ACCEPTED}")
    if found is None:
        raise refused
    word, number, unit = found.groups()
    latency = LATENCY.fullmatch(word)
    if latency is None and word not in SHARES:
        raise refused
    try:
        limit = float(number) * UNITS[unit]
    except ValueError:
        raise refused from None
    if not 0 < limit < math.inf or (unit in ("s", "ms")) != (latency is not None):
        raise refused
    if latency is not None:
        return Term(part, f"{latency[1]}_s_{latency[2]}", limit, True)
    figure, waiting = SHARES[word]
    if not waiting and limit >= 1:
        raise UsageError(f"--slo '{whole}': '{part}' is a share of all; accepted: less than 100%, like {word}<1%")
    return Term(part, figure, limit, waiting)
