"""The answers of `pagesim trace` for people: small tables, units in the headings."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 120


def show_info(traces: list[dict[str, Any]]) -> None:
    """Print entries of schema pagesim.trace-info/1 on stdout."""
    console = _console()
    for trace in traces:
        console.print(_facts(trace))
        console.print(_lengths(trace))


def show_public(traces: list[dict[str, Any]]) -> None:
    """Print entries of schema pagesim.trace-list/1 on stdout."""
    console = _console()
    for trace in traces:
        size = f"{trace['size_bytes']:,} bytes"
        console.print(f"{trace['name']}: {trace['title']}", soft_wrap=True)
        console.print(f"    {trace['format']}, {size}, {trace['license']}, {trace['url']}", soft_wrap=True)


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=PIPE_WIDTH)


def _facts(trace: dict[str, Any]) -> Table:
    table = Table(title=trace["path"], title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _pairs(trace):
        table.add_row(name, value)
    return table


def _pairs(trace: dict[str, Any]) -> list[tuple[str, str]]:
    rate = trace["rate_per_s"]
    pairs = [
        ("format", trace["format"]),
        ("rows read", f"{trace['reading']['rows_read']:,}"),
        ("requests", f"{trace['requests']:,}"),
        ("span", f"{trace['span_s']:,.3f} s"),
        ("rate", "all at once" if rate is None else f"{rate:,.4g} requests/s"),
        ("longest gap", f"{trace['longest_gap_s']:,.3f} s"),
        ("distinct arrivals", f"{trace['distinct_arrivals']:,}"),
    ]
    for name in ("sessions", "cache_salts", "adapters", "samples"):
        if trace[name] is not None:
            pairs.append((name.replace("_", " "), f"{trace[name]:,}"))
    return pairs + _sharing(trace) + [("content sha256", trace["sha256"])]


def _sharing(trace: dict[str, Any]) -> list[tuple[str, str]]:
    sharing, block = trace["sharing"], trace["hash_block_tokens"]
    if sharing is None:
        return []
    tokens, blocks = f"{sharing['hit_tokens']:,}", f"{sharing['hit_blocks']:,} of {sharing['blocks']:,}"
    return [
        ("hash ids", f"one for {block} tokens, {sharing['distinct_ids']:,} distinct"),
        ("an endless cache finds", f"{sharing['token_share']:.1%} of prompt tokens ({tokens})"),
        (f"in blocks of {block}", f"{sharing['block_share']:.1%} of blocks ({blocks})"),
    ]


def _lengths(trace: dict[str, Any]) -> Table:
    table = Table("tokens", "mean", "median", "p95", "max", "total")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in ("prompt", "output"):
        stats = trace[name]
        whole = [f"{stats[key]:,.0f}" for key in ("median", "p95", "max", "total")]
        table.add_row(name, f"{stats['mean']:,.1f}", *whole)
    return table
