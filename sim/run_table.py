"""The table of a run, for terminal and report: a column for each allocator, a row for each figure."""

from __future__ import annotations

from collections.abc import Callable

from pagesim.sim.headline import headline
from pagesim.sim.result import AllocatorResult, RunResult
from pagesim.sim.setting import percent
from pagesim.sim.shown import Shown
from pagesim.sim.summary import readings, sentences, warning, with_interval

Cell = Callable[[AllocatorResult], str]
NONE = "-"
ROWS: dict[str, Cell] = {
    "refused, of requests": lambda a: with_interval(a.refused_share),
    "refused, of tokens": lambda a: with_interval(a.refused_token_share),
    "occupied, of the pool": lambda a: with_interval(a.occupied),
    "  used": lambda a: with_interval(a.used),
    "  reserved": lambda a: with_interval(a.reserved),
    "  internal": lambda a: with_interval(a.internal),
    "free": lambda a: with_interval(a.free),
    "at refusal: occupied": lambda a: percent(a.at_refusal.occupied_mean) if a.at_refusal else NONE,
    "  free but unusable": lambda a: percent(a.at_refusal.unusable_mean) if a.at_refusal else NONE,
}
SOMETIMES: dict[str, tuple[str, Cell]] = {  # shown where there are any: the field, and its cell
    "rejected, of requests": ("rejected", lambda a: with_interval(a.rejected_share)),
    "dropped, of requests": ("dropped", lambda a: with_interval(a.dropped_share)),
    "tokens moved, all runs": ("moved_tokens", lambda a: f"{a.moved_tokens:,}"),
}
INTERVALS = "± is half of the 95% interval over the replications, in points. "
LEGEND = (
    "refused: of the requests that could ever be served, and of their tokens in the end. used: holds a token; "
    "reserved: owned, will be filled; internal: owned, never filled; these make occupied, and with free the pool: "
    "means over time. unusable: free when a request was refused, and enough for it in total: external waste."
)


def legend(result: RunResult) -> str:
    """What the words and signs of the table mean."""
    return (INTERVALS if len(result.trace.replications) > 1 else "") + LEGEND


def rows(result: RunResult) -> list[list[str]]:
    """A label, then a cell for each allocator in the order of the result."""
    each = list(result.allocators.values())
    table = [[label, *map(cell, each)] for label, cell in ROWS.items()]
    seen = [(label, cell) for label, (field, cell) in SOMETIMES.items() if any(getattr(a, field) for a in each)]
    return [[label, *map(cell, each)] for label, cell in seen] + table


def shown(result: RunResult) -> Shown:
    """All that is said of a run in which nothing waits."""
    return Shown(headline(result), warning(result), rows(result), sentences(result), readings(result), legend(result))
