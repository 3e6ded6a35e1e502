"""The answer of `pagesim capacity` for people: a few small tables, units in the headings."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from pagesim.sim.sizes import format_bytes

PIPE_WIDTH = 120


def show(report: dict[str, Any]) -> None:
    """Print the tables and notes of a report of schema pagesim.capacity/1 on stdout."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PIPE_WIDTH)
    for table in filter(None, (_budget(report), _pool(report), _limits(report), _sequences(report), _tails(report))):
        console.print(table)
    for note in report["notes"]:
        console.print(f"note: {note}")


def _pairs(title: str, rows: list[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def _budget(report: dict[str, Any]) -> Table | None:
    budget = report["budget"]
    if budget is None:
        return None
    table = Table("part", "size", "bytes", "standing", "how", title="memory of one card", title_justify="left")
    for column in (1, 2):
        table.columns[column].justify = "right"
    total = budget["total"]
    table.add_row("total", format_bytes(total["num_bytes"]), f"{total['num_bytes']:,}", total["standing"], total["how"])
    allowed = budget["allowed_bytes"]
    how = f"ceil(total x {budget['utilization']:g})"
    table.add_row("the engine may use", format_bytes(allowed), f"{allowed:,}", "", how)
    for term in budget["terms"]:
        size = format_bytes(term["num_bytes"])
        table.add_row(f"- {term['name']}", size, f"{term['num_bytes']:,}", term["standing"], term["how"])
    table.add_row("= cache", format_bytes(budget["cache_bytes"]), f"{budget['cache_bytes']:,}", "", "")
    return table


def _pool(report: dict[str, Any]) -> Table:
    pool_size = format_bytes(report["pool_bytes"])
    rows = [
        ("cache per token", f"{format_bytes(report['bytes_per_token'])} ({report['bytes_per_token']:,} B), one rank"),
        ("block", f"{report['block_size']} tokens, {format_bytes(report['bytes_per_block'])}"),
        ("num_blocks", f"{report['num_blocks']:,} = {report['pool_tokens']:,} tokens = {pool_size}"),
        ("usable blocks", f"{report['usable_blocks']:,} = {report['usable_tokens']:,} tokens, less the null block"),
    ]
    if report["null_blocks"] == 0:
        rows[-1] = ("usable blocks", f"all {report['usable_blocks']:,}: no null block")
    if report["layers"] is not None:
        rows.insert(0, ("model", f"{report['model']}: {report['layers']}"))
    return _pairs("pool", rows)


def _limits(report: dict[str, Any]) -> Table:
    tokens, table = report["max_model_len"], report["block_table"]
    accepts = "yes" if report["starts"] else f"no: one such sequence takes {format_bytes(report['needed_bytes'])}"
    rows = [
        ("start-up accepts it", accepts),
        ("largest max_model_len", f"{_length(report['largest_max_model_len'])} (the whole pool: what start-up counts)"),
        ("largest that is served", f"{_length(report['largest_servable_len'])} (without the null block)"),
        ("maximum concurrency", f"{report['max_concurrency']:.2f}x"),
        ("block table", f"{table['entries']} entries x {table['entry_bytes']} B = {format_bytes(table['bytes'])}"),
    ]
    if report["max_num_seqs"] is not None:
        rows.insert(4, ("scheduler's cap", f"{report['max_num_seqs']:,} running sequences, whatever the pool holds"))
    return _pairs(f"a sequence of max_model_len = {tokens:,} tokens", rows)


def _length(tokens: int | None) -> str:
    return "any length" if tokens is None else f"{tokens:,} tokens"


def _sequences(report: dict[str, Any]) -> Table:
    table = Table("what", "count", "", title="room, in sequences", title_justify="left")
    table.columns[1].justify = "right"
    size = format_bytes(report["reservation_bytes"])
    table.add_row(f"reservations of {report['max_model_len']:,} tokens", f"{report['reservations']:,}", f"{size} each")
    bare, gain = report["bare_card"], f"at {report['gain_tokens']} tokens, paged holds"
    if bare is not None:
        beside = (
            f"{format_bytes(bare['weights_bytes'])} weights ({bare['weights_standing']}) and an assumed "
            f"{format_bytes(bare['context_bytes'])} context"
        )
        table.add_row(f"the same on the bare {bare['device']}", f"{bare['reservations']:,}", f"beside {beside}")
    for tokens, count in report["sequences"].items():
        servable = report["servable_sequences"][tokens]
        less = "" if servable == count else f"{servable:,} without the null block"
        table.add_row(f"paged, of {int(tokens):,} tokens", f"{count:,}", less)
    if report["gain_over_reservations"] is not None:
        table.add_row(gain, f"{report['gain_over_reservations']:.1f}x", "the reservations of the same pool")
    if bare is not None and bare["gain"] is not None:
        table.add_row(gain, f"{bare['gain']:.1f}x", "the reservations of the bare card")
    return table


def _tails(report: dict[str, Any]) -> Table:
    lengths = report["lengths"]
    moments = f"mean {lengths['mean_tokens']:.1f}, median {lengths['median_tokens']}"
    title = f"unfinished last block: {lengths['label']} ({moments})"
    table = Table("block", "mean tail", "of all held", "sequences", "most", title=title, title_justify="left")
    for column in table.columns:
        column.justify = "right"
    for block_size, tail in report["tail"].items():
        most = f"{tail['tokens_most']} tokens = {format_bytes(tail['bytes_most'])}"
        mean, share = f"{tail['tokens_mean']:.1f} tokens", f"{tail['share']:.1%}"
        table.add_row(f"{block_size} tokens", mean, share, f"{tail['sequences']:,}", most)
    return table
