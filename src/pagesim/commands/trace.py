"""`pagesim trace`: look at a trace, bring it into our format, draw one, fetch a public one."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Look at, convert, generate and fetch request traces.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def info() -> None:
    """Say what a trace holds."""
