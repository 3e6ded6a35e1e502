"""`pagesim bench`: what the kernels cost, on a card or, without one, in compiled code.

`bench engine`, in a file of its own, joins this `app`.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands.kernel import one_line_errors, wide_console
from pagesim.kernels.bench_cases import Grid, Heads

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(help="What the kernels and the engine cost.", no_args_is_help=True, rich_markup_mode=None)

GRID, HEADS = Grid(), Heads()
STATIC_BLOCK_SIZES = (16,)


class On(Enum):
    """Where to look."""

    AUTO = "auto"
    CUDA = "cuda"
    STATIC = "static"
    CPU = "cpu"


@app.callback()
def _group() -> None:
    pass


@app.command()
def attention(
    on: Annotated[
        On,
        typer.Option(help="cuda times a card, static counts in compiled code, cpu times the CPU backend."),
    ] = On.AUTO,
    block_size: Annotated[
        list[int] | None, typer.Option(help="Tokens in a block; may be repeated. [default: 16 32 64 128; static: 16]")
    ] = None,
    context: Annotated[
        list[int] | None, typer.Option(help="Tokens of each sequence; may be repeated. [default: 128 to 32768]")
    ] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Sequences; may be repeated. [default: 1 8 64 256]")] = None,
    heads: Annotated[int, typer.Option(help="Query heads.")] = HEADS.num_heads,
    kv_heads: Annotated[int, typer.Option(help="KV heads.")] = HEADS.num_kv_heads,
    head_dim: Annotated[int, typer.Option(help="64, 80, 96, 128 or 256.")] = HEADS.head_dim,
    dtype: Annotated[str, typer.Option(help="fp16, bf16 or fp32.")] = HEADS.dtype,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page of charts too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.bench.attention/1.")] = False,
) -> None:
    """Time decode attention against the copy bandwidth of the card; without one, count in code compiled for three.

    --on auto takes the card if there is one, and says so where it times nothing.
    """
    from pagesim.kernels.bench_page import page
    from pagesim.sim.files import check_writable, write_text
    from pagesim.sim.jsontext import dumps

    if html is not None:
        check_writable(html)
    with one_line_errors():
        shape = Heads(heads, kv_heads, head_dim, dtype)
        grid = Grid(
            tuple(block_size or GRID.block_sizes), tuple(context or GRID.contexts_tokens), tuple(batch or GRID.batches)
        )
        grid.check()
        report = _report(on, grid, shape, tuple(block_size or STATIC_BLOCK_SIZES))
    if html is not None:
        write_text(html, page(report))
    if as_json:
        print(dumps({"schema": "pagesim.bench.attention/1"} | report))
    else:
        _show(report)


def _report(on: On, grid: Grid, shape: Heads, static_block_sizes: tuple[int, ...]) -> dict[str, Any]:
    """Measure, or count; which of the two is in the report's "measured"."""
    from pagesim.sim.console import progress

    if on is On.AUTO:
        import torch

        on = On.CUDA if torch.cuda.is_available() else On.STATIC
    if on is On.STATIC:
        from pagesim.kernels.static_account import static_report

        return static_report(shape, static_block_sizes)
    measure: Callable[..., dict[str, Any]]
    if on is On.CPU:
        from pagesim.kernels.cpu_bench import bench_cpu as measure
    else:
        from pagesim.kernels.bench import bench_attention as measure
    with progress("attention", len(list(grid.cases(shape)))) as advance:
        return measure(grid, shape, advance)


def _show(report: dict[str, Any]) -> None:
    console = wide_console()
    console.print(", ".join(f"{name} {value}" for name, value in report["device"].items()))
    if report["measured"]:
        _show_times(report, console)
    else:
        _show_counts(report, console)


def _show_times(report: dict[str, Any], console: Any) -> None:
    from rich.table import Table

    console.print(f"copy bandwidth {report['copy_bytes_per_s'] / 1e9:,.1f} GB/s, read plus written\n")
    table = Table()
    for name in ("batch", "context", "block", "kernel", "time, us", "GB/s", "of copy"):
        table.add_column(name, justify="left" if name == "kernel" else "right")
    for row in report["rows"]:
        place = [f"{row['batch']:,}", f"{row['context_tokens']:,}", str(row["block_size"])]
        kernel = row["kernel"]
        if "addressing" in row:
            kernel += f" {row['addressing']}, {row['tiles_in_flight']} in flight, {row['splits']} splits"
        if "time_us" in row:
            part = f"{row['bytes_per_s'] / report['copy_bytes_per_s']:.1%}"
            table.add_row(*place, kernel, f"{row['time_us']:,.1f}", f"{row['bytes_per_s'] / 1e9:,.1f}", part)
        else:
            table.add_row(*place, kernel, row.get("failed") or row["skipped"], "", "")
    console.print(table)
    for row in report.get("ratios", []):
        where = f"batch {row['batch']}, context {row['context_tokens']}, blocks of {row['block_size']}"
        how = f"{row['addressing']}, {row['tiles_in_flight']} in flight"
        console.print(f"{where}, {how}: paged / contiguous = {row['paged_over_contiguous']:.3f}")


def _show_counts(report: dict[str, Any], console: Any) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    console.print(f"{report['note']}\n")
    table = Table(title="Decode as compiled, one pass of the loop over tiles", title_justify="left", box=SIMPLE)
    fields = {
        "compute_capability": "card", "block_size": "block", "body": "body", "addressing": "addressing",
        "tiles_in_flight": "ahead", "tile": "tile", "registers": "regs", "stack_bytes": "stack, B",
        "shared_bytes": "shared, B", "loop_instructions": "in loop", "loop_instructions_over_twin": "over twin",
        "loop_table_loads": "loads", "loop_mma": "mma",
    }  # fmt: skip
    for name in fields.values():
        is_text = name in ("body", "addressing")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=is_text)
    for row in report["rows"]:
        table.add_row(*(str(row[field]) for field in fields))
    console.print(table)
