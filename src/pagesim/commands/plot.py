"""`pagesim plot`: the figures of a saved result, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands.run_options import option
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.gallery import AnyResult

SCHEMA = "pagesim.plot/1"


def plot(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="What `pagesim run --out` saved: file or folder.")],
    listed: Annotated[bool, option("--list", help="Say which figures it has.")] = False,
    figure: Annotated[str | None, option("--figure", metavar="NAME", help="The figure to draw.")] = None,
    out: Annotated[
        Path | None, option("--out", metavar="FILE", help="Where to: .html, or .png, .svg, .pdf by a browser.")
    ] = None,
    width: Annotated[int | None, option("--width", help="Of an image, pixels. [default: 900]")] = None,
    scale: Annotated[float | None, option("--scale", help="Dots of a .png for each pixel. [default: 2]")] = None,
    as_json: Annotated[bool, option("--json", help="Print JSON, schema pagesim.plot/1.")] = False,
) -> None:
    """Draw a figure of a saved result: the same that its report shows."""
    if listed == (figure is not None):
        raise UsageError("--list or --figure NAME; accepted: one of the two")
    if figure is None:
        for flag, value in (("--out", out), ("--width", width), ("--scale", scale)):
            if value is not None:
                raise UsageError(f"{flag} and --list, which draws nothing; accepted: {flag} with --figure NAME")
    elif out is None:
        raise UsageError("--figure without --out; accepted: --out FILE, ending in .html, .png, .svg or .pdf")
    from pagesim.sim.gallery import load

    loaded = load(result)
    if figure is None or out is None:
        _list(loaded, as_json)
    else:
        _draw(result, loaded, figure, out, {"width_px": width, "scale": scale}, as_json)


def _list(result: AnyResult, as_json: bool) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from pagesim.commands.kernel import wide_console
    from pagesim.sim.gallery import pictures
    from pagesim.sim.jsontext import dumps

    if as_json:
        figures = [{"name": p.name, "title": p.title, "caption": p.caption, "lacking": p.lacking}
                   for p in pictures(result)]  # fmt: skip
        print(dumps({"schema": SCHEMA, "result": result.SCHEMA, "figures": figures}))
        return
    table = Table("figure", "what it shows", box=SIMPLE, pad_edge=False)
    for each in pictures(result):
        table.add_row(each.name, each.title + (f" (not here: {each.lacking})" if each.lacking else ""))
    wide_console().print(table)


def _draw(saved: Path, result: AnyResult, name: str, out: Path, size: dict[str, Any], as_json: bool) -> None:
    from pagesim.sim.console import progress
    from pagesim.sim.files import check_apart, check_writable
    from pagesim.sim.gallery import picture
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.picture_file import PAGE, kind_of, write_picture
    from pagesim.sim.saved import file_of

    chosen, kind = picture(result, name), kind_of(out)
    said = {name: value for name, value in size.items() if value is not None}
    if kind == PAGE and said:
        raise UsageError(f"{out}: a page is as wide as its window; accepted: --width and --scale with .png, .svg, .pdf")
    check_writable(out)
    check_apart(file_of(saved), out)
    with progress("drawing", None):
        write_picture(chosen, out, **said)
    if as_json:
        print(dumps({"schema": SCHEMA, "result": result.SCHEMA, "figure": name, "format": kind, "out": str(out)}))
    else:
        print(f"{name}: {out}")
