"""`python -m pagesim.sim.experiments [NAME ...]`: published figures beside ours. No name: all."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from pagesim.sim.console import progress
from pagesim.sim.errors import PagesimError
from pagesim.sim.experiments.catalogue import EXPERIMENTS, experiment, refitted_profile
from pagesim.sim.experiments.experiment import Experiment
from pagesim.sim.experiments.row import Row
from pagesim.sim.experiments.table import markdown, print_table
from pagesim.sim.jsontext import dumps

SCHEMA = "pagesim.experiments/1"


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for and print it; the exit status."""
    asked = _parser().parse_args(arguments)
    try:
        if asked.refit:
            print(dumps(refitted_profile().as_json()))
            return 0
        done = _run([experiment(name) for name in asked.names or EXPERIMENTS])
    except PagesimError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if asked.json:
        print(dumps({"schema": SCHEMA, "experiments": [_json(one, rows) for one, rows in done]}))
    elif asked.markdown:
        print("\n".join(markdown(one, rows) for one, rows in done), end="")
    else:
        console = Console()
        for one, rows in done:
            print_table(console, one, rows)
    return 0


def _run(chosen: list[Experiment]) -> list[tuple[Experiment, list[Row]]]:
    with progress("serving", sum(one.num_requests for one in chosen)) as advance:
        return [(one, one.run(advance)) for one in chosen]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pagesim.sim.experiments", description="Published figures beside ours."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join(EXPERIMENTS)}")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=f"print JSON, schema {SCHEMA}")
    form.add_argument("--markdown", action="store_true", help="print sections of a Markdown document")
    form.add_argument("--refit", action="store_true", help="fit the reference profile again and print it")
    return parser


def _json(one: Experiment, rows: list[Row]) -> dict[str, object]:
    return {"name": one.name, "shows": one.shows, "assumed": one.assumed, "rows": [row.as_json() for row in rows]}


if __name__ == "__main__":
    sys.exit(main())
