"""`pagesim run --scenario`: an experiment by name, or a recording of vLLM's scheduler, served again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.scenario_report import FirstRun, Told
    from pagesim.sim.serving.scenario import Scenario

STEP_S = 1.0  # a recording counts its steps: each takes one unit of time


def run_scenario(name: str, steps: Path | None, html: Path | None, as_json: bool) -> None:
    """Serve it and print what came out beside what was published or recorded; write the log of single steps and a page.

    Raises UsageError if there is no such experiment or file, TraceError if the file is no recording.
    """
    from pagesim.sim.experiments.catalogue import EXPERIMENTS
    from pagesim.sim.files import check_apart, check_writable

    for place in (steps, html):
        if place is not None:
            check_writable(place)
    check_apart(None if name in EXPERIMENTS else Path(name), steps, html)
    if name in EXPERIMENTS:
        _experiment(name, steps, html, as_json)
    elif Path(name).is_file():
        _recording(Path(name), steps, html, as_json)
    else:
        raise UsageError(f"--scenario {name}; accepted: {', '.join(EXPERIMENTS)}, or the file of a recording")


def _experiment(name: str, path: Path | None, html: Path | None, as_json: bool) -> None:
    from rich.console import Console

    from pagesim.sim.console import progress
    from pagesim.sim.experiments.catalogue import experiment
    from pagesim.sim.experiments.table import HEAD, cells, print_table
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.serving.server import serve
    from pagesim.sim.serving.steps import steps, write_steps

    chosen = experiment(name)
    with progress("serving", chosen.num_requests) as advance:
        logs = {run_name: run.serve(advance) for run_name, run in chosen.runs.items()}
    rows, (first, *_) = chosen.rows(logs), logs
    if path is not None:
        run = next(iter(chosen.runs.values()))  # the first is what the experiment is named for
        write_steps(path, steps(serve(run.trace, run.config, run.step_time)))
    if as_json:
        answer = {"name": name, "shows": chosen.shows, "assumed": chosen.assumed, "rows": [r.as_json() for r in rows]}
        print(dumps({"schema": "pagesim.experiments/1", "experiments": [answer]}))
    else:
        print_table(Console(), chosen, rows)
    if html is not None:
        from pagesim.sim.scenario_report import FirstRun, Told

        remarks = [f"{row.what}: {row.remark}" for row in rows]
        told = Told(chosen.name, chosen.shows, chosen.assumed, HEAD, [cells(row) for row in rows], remarks)
        _write_page(told, FirstRun(first, len(logs), chosen.runs[first].trace, logs[first]), html)
    _told(path, html, as_json)


def _recording(file: Path, path: Path | None, html: Path | None, as_json: bool) -> None:
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.serving.scenario import read_scenario
    from pagesim.sim.serving.server import serve
    from pagesim.sim.serving.steps import steps, write_steps
    from pagesim.sim.serving.steptime import ConstantStep

    scenario = read_scenario(file)
    log = serve(scenario.trace, scenario.config, ConstantStep(STEP_S))
    if path is not None:
        write_steps(path, steps(log, scenario.ids, by_clock=True))
    answer = _answer(scenario, log.totals())
    if as_json:
        print(dumps(answer))
    else:
        _show(answer)
    if html is not None:
        from pagesim.sim.scenario_report import FirstRun, Told

        said = "agrees with" if answer["agree"] else "DIFFERS from"
        headline = f"{len(scenario.trace):,} requests of a recording of vLLM's scheduler: what came out {said} it."
        told = Told(scenario.name, headline, None, ("", "ours", "recorded"), _rows(answer), ())
        _write_page(told, FirstRun(scenario.name, 1, scenario.trace, log), html)
    _told(path, html, as_json)


def _answer(scenario: Scenario, totals: dict[str, int]) -> dict[str, Any]:
    recorded = {name: value for name, value in scenario.totals.items() if name in totals}
    return {
        "schema": "pagesim.scenario/1",
        "name": scenario.name,
        "requests": len(scenario.trace),
        "config": scenario.config.as_json(),
        "totals": totals,
        "recorded": recorded,
        "agree": all(totals[name] == value for name, value in recorded.items()),
    }


def _show(answer: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table("", "ours", "recorded", box=SIMPLE, pad_edge=False)
    for row in _rows(answer):
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    console.print(f"{answer['name']}: {answer['requests']:,} requests, {answer['config']['num_blocks']:,} blocks")
    console.print(table)


def _rows(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    recorded = {name: f"{value:,}" for name, value in answer["recorded"].items()}
    return [(name.replace("_", " "), f"{value:,}", recorded.get(name, "-")) for name, value in answer["totals"].items()]


def _write_page(told: Told, first: FirstRun, path: Path) -> None:
    from pagesim.sim.scenario_report import write_scenario

    write_scenario(told, first, path, shlex.join(["pagesim", *sys.argv[1:]]))


def _told(path: Path | None, html: Path | None, as_json: bool) -> None:
    for what, place in (("steps", path), ("report", html)):
        if place is not None:
            print(f"{what}: {place}", file=sys.stderr if as_json else sys.stdout)
