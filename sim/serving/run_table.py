"""The table of a run in which requests wait, for terminal and report: a column for each allocator, a row a figure."""

from __future__ import annotations

from collections.abc import Callable

from pagesim.sim.serving.result import AllocatorResult, Latency, ServingResult
from pagesim.sim.setting import percent
from pagesim.sim.stats import Interval
from pagesim.sim.summary import with_interval

Cell = Callable[[AllocatorResult], str]
NONE = "-"


def seconds(value: float) -> str:
    """12.3 s, 3.00 s or 45.6 ms: three digits, or all before the point."""
    if value >= 99.95:
        return f"{value:,.0f} s"
    number, unit = (value, "s") if value >= 0.9995 else (1000 * value, "ms")
    return f"{number:#.3g}".removesuffix(".") + f" {unit}"


def _rate(value: Interval | None) -> str:
    if value is None:
        return NONE
    digits = 0 if value.mean >= 100 else 2
    return f"{value.mean:,.{digits}f}" + ("" if value.half is None else f" ± {value.half:,.{digits}f}")


def _p50_p99(latency: Latency) -> str:
    if latency.p50 is None or latency.p99 is None:
        return NONE
    return f"{seconds(latency.p50.mean)}, {seconds(latency.p99.mean)}"


def _waited(reason: str) -> Cell:
    return lambda a: with_interval(a.waited[reason].share)


def _of_rule(rule: str, text: Callable[[dict[str, float]], str]) -> tuple[Callable[[AllocatorResult], bool], Cell]:
    """A row that is shown where a what-if is in force."""
    return lambda a: rule in a.what_ifs, lambda a: text(a.what_ifs[rule]) if rule in a.what_ifs else NONE


ROWS: dict[str, Cell] = {
    "output tokens/s": lambda a: _rate(a.output_tokens_per_s),
    "TTFT p50, p99": lambda a: _p50_p99(a.ttft_s),
    "TPOT p50, p99": lambda a: _p50_p99(a.tpot_s),
    "ITL p50, p99": lambda a: _p50_p99(a.itl_s),
    "E2E p50, p99": lambda a: _p50_p99(a.e2e_s),
    "queueing p50, p99": lambda a: _p50_p99(a.queueing_s),
    "running, waiting": lambda a: f"{a.running_mean.mean:,.1f}, {a.waiting_mean.mean:,.1f}",
    "occupied": lambda a: with_interval(a.occupied),
    "  used": lambda a: with_interval(a.used),
    "  reserved": lambda a: with_interval(a.reserved),
    "  internal": lambda a: with_interval(a.internal),
    "free": lambda a: with_interval(a.free),
    "  free but unusable": lambda a: with_interval(a.unusable),
    "waited: memory": _waited("no blocks"),
}
SOMETIMES: dict[str, tuple[Callable[[AllocatorResult], float | None], Cell]] = {  # shown where there are any
    "rejected": (lambda a: a.rejected, lambda a: f"{a.rejected:,}"),
    "goodput, req/s": (lambda a: 1 if a.goodput_per_s else None, lambda a: _rate(a.goodput_per_s)),
    "  free but cached": (lambda a: a.cached.mean, lambda a: with_interval(a.cached)),
    "waited: sequences": (lambda a: a.waited["max_num_seqs"].heads, _waited("max_num_seqs")),
    "waited: budget": (lambda a: a.waited["token budget"].heads, _waited("token budget")),
    "waited: preemption": (lambda a: a.waited["preemption"].heads, _waited("preemption")),
    "preemptions": (lambda a: a.preemptions, lambda a: f"{a.preemptions:,}"),
    "  tokens recomputed": (lambda a: a.recomputed_tokens, lambda a: f"{a.recomputed_tokens:,}"),
    "  time they took": (
        lambda a: a.recomputing_s.mean,
        lambda a: percent(a.recomputing_s.mean / a.span_s.mean) if a.span_s.mean else NONE,
    ),
    "swapped out": _of_rule("swap", lambda swap: f"{swap['swapped']:,.0f}"),
    "  blocks out, in": _of_rule("swap", lambda swap: f"{swap['blocks_out']:,.0f}, {swap['blocks_in']:,.0f}"),
    "  time on the link": _of_rule("swap", lambda swap: seconds(swap["link_s"])),
    "forks": _of_rule("fork", lambda fork: f"{fork['forks']:,.0f}"),
    "  blocks saved, copied": _of_rule(
        "fork", lambda fork: f"{fork['blocks_saved']:,.0f}, {fork['blocks_copied']:,.0f}"
    ),
    "matches inside a block": _of_rule("match", lambda match: f"{match['blocks_copied']:,.0f}"),
    "prompt tokens found": (
        lambda a: None if a.prefix_hit_share is None else 1,
        lambda a: NONE if a.prefix_hit_share is None else with_interval(a.prefix_hit_share),
    ),
}
BEHIND = {"goodput, req/s": "output tokens/s", "  free but cached": "  free but unusable"}
INTERVALS = "± is half of the 95% interval over the replications. "
LEGEND = (
    "Percentiles are of requests, or of intervals between tokens (ITL); with several runs, the mean of each one's. "
    "TTFT, E2E and queueing count from arrival. running, waiting: requests, and occupied to free: slots, in the mean "
    "over the time from the first arrival to the last token. used: holds a token; reserved: owned, will be filled; "
    "internal: owned, never filled; unusable: free, and in total enough for the head of the queue, which could not be "
    "placed. waited: the share of the time in which somebody waited, by what the head of the queue was not given; a "
    "step that preempts admits nobody. Preemptions and what was recomputed are sums over all runs."
)


def legend(result: ServingResult) -> str:
    """What the words and signs of the table mean."""
    return (INTERVALS if len(result.trace.replications) > 1 else "") + LEGEND


def rows(result: ServingResult) -> list[list[str]]:
    """A label, then a cell for each allocator in the order of the result."""
    each = list(result.allocators.values())
    table = [[label, *map(cell, each)] for label, cell in ROWS.items()]
    some = {label: [label, *map(cell, each)] for label, (any_of, cell) in SOMETIMES.items() if any(map(any_of, each))}
    for label, behind in BEHIND.items():
        if label in some:
            table.insert([row[0] for row in table].index(behind) + 1, some.pop(label))
    return table + list(some.values())
