"""`pagesim kernel`: look inside the attention kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pagesim.engine.errors import EngineError
from pagesim.kernels.account import Decode
from pagesim.kernels.errors import KernelError
from pagesim.sim.errors import UsageError
from pagesim.validate.doctor.packages import EXTRAS

if TYPE_CHECKING:
    from rich.console import Console

    from pagesim.kernels.account import Step, Tile

app = typer.Typer(help="Look inside the paged attention kernel.", no_args_is_help=True, rich_markup_mode=None)

NOTE = Decode()
PIPE_WIDTH = 120
SHOWN_TILES = 4  # of a long walk, so many from each end


@app.callback()
def _group() -> None:
    pass


@app.command()
def explain(
    seq_len: Annotated[int, typer.Option(help="Tokens of the sequence that are in the cache.")] = NOTE.seq_len_tokens,
    block_size: Annotated[int, typer.Option(help="Tokens in a block.")] = NOTE.block_size,
    tile: Annotated[int, typer.Option(help="Positions the kernel walks at a time.")] = NOTE.tile_tokens,
    layers: Annotated[int, typer.Option(help="Layers of the model.")] = NOTE.num_layers,
    heads: Annotated[int, typer.Option(help="Query heads.")] = NOTE.num_heads,
    kv_heads: Annotated[int, typer.Option(help="KV heads.")] = NOTE.num_kv_heads,
    head_dim: Annotated[int, typer.Option(help="Numbers in a head.")] = NOTE.head_dim,
    item_bytes: Annotated[int, typer.Option(help="Bytes of a number in the cache.")] = NOTE.item_bytes,
    seed: Annotated[int, typer.Option(help="Of the block table that is drawn for the example.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.kernel.explain/1.")] = False,
) -> None:
    """Walk one decode step tile by tile: block numbers, bytes of K and V, multiply-adds. No torch, no card."""
    from dataclasses import asdict

    from pagesim.kernels.account import shuffled_table, total, walk
    from pagesim.sim.jsontext import dumps

    with one_line_errors():
        decode = Decode(seq_len, block_size, tile, layers, heads, kv_heads, head_dim, item_bytes)
    tiles = list(walk(decode, shuffled_table(decode, seed)))
    step = total(decode, tiles)
    if as_json:
        print(
            dumps(
                {
                    "schema": "pagesim.kernel.explain/1",
                    "decode": asdict(decode),
                    "seed": seed,
                    "block_bytes_per_layer": decode.block_bytes,
                    "tiles": [asdict(t) | {"block_number_bytes": t.block_number_bytes} for t in tiles],
                    "step": asdict(step),
                }
            )
        )
    else:
        _show(decode, tiles, step)


def _show(decode: Decode, tiles: list[Tile], step: Step) -> None:
    from rich.table import Table

    console = wide_console()
    console.print(
        f"One decode step over {decode.seq_len_tokens:,} tokens: {decode.num_layers} layers, {decode.num_heads} query "
        f"heads, {decode.num_kv_heads} KV heads of {decode.head_dim}, {decode.item_bytes}-byte numbers."
    )
    console.print(
        f"Address of position i: table[i // {decode.block_size}] * {decode.block_bytes} B "
        f"+ (i % {decode.block_size}) * {decode.slot_bytes} B; V lies {decode.block_bytes // 2} B after K.\n"
    )
    table = Table(title="What one program reads and multiplies: one KV head of one layer", title_justify="left")
    for name in ("tile", "positions", "block", "first byte of K", "block numbers", "K and V", "multiply-adds"):
        table.add_column(name, justify="right")
    hidden = range(SHOWN_TILES, len(tiles) - SHOWN_TILES)
    for number, tile in enumerate(tiles):
        if len(hidden) > 1 and number in hidden:
            if number == hidden[0]:
                table.add_row(f"... {len(hidden)} more")
            continue
        table.add_row(
            f"{number:,}",
            f"{tile.first_position:,} to {tile.first_position + tile.num_tokens - 1:,}",
            ", ".join(f"{block:,}" for block in tile.blocks),
            f"{tile.first_byte:,}",
            f"{tile.block_number_bytes} B",
            f"{tile.kv_bytes:,} B",
            f"{tile.multiply_adds:,}",
        )
    console.print(table)
    console.print(
        f"\nThe whole step, {decode.num_layers * decode.num_kv_heads} programs:\n"
        f"  tiles                                     {step.num_tiles:>16,}\n"
        f"  table reads, each position its own        {step.table_reads_by_position:>16,}\n"
        f"  table reads, one serves a block           {step.table_reads_by_block:>16,}\n"
        f"  bytes of K and V                          {step.kv_bytes:>16,} B\n"
        f"  multiply-adds                             {step.multiply_adds:>16,}\n"
        f"  bytes of the table itself                 {step.table_bytes:>16,} B\n"
        "\nCounts, not time: what a dependent load costs depends on its latency, which only a card shows."
    )


def wide_console() -> Console:
    """A console for plain text; where it is not a terminal, wide enough for every table."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=PIPE_WIDTH)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a caller's mistake in kernels or engine, or a missing library, into an error of the command line."""
    try:
        yield
    except (KernelError, EngineError) as error:
        raise UsageError(str(error)) from error
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        raise UsageError(f"{name} is not installed; accepted: pip install 'pagesim[{EXTRAS[name]}]'") from error
