"""`pagesim run --scenario`: an experiment by name, or a recording of vLLM's scheduler, served again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.serving.scenario import Scenario

STEP_S = 1.0  # a recording counts its steps: each takes one unit of time


def run_scenario(name: str, steps: Path | None, as_json: bool) -> None:
    """Serve it and print what came out beside what was published or recorded; write the log of single steps.

    Raises UsageError if there is no such experiment or file, TraceError if the file is no recording.
    """
    from pagesim.sim.experiments.catalogue import EXPERIMENTS
    from pagesim.sim.files import check_apart, check_writable

    if steps is not None:
        check_writable(steps)
        check_apart(None if name in EXPERIMENTS else Path(name), steps)
    if name in EXPERIMENTS:
        _experiment(name, steps, as_json)
    elif Path(name).is_file():
        _recording(Path(name), steps, as_json)
    else:
        raise UsageError(f"--scenario {name}; accepted: {', '.join(EXPERIMENTS)}, or the file of a recording")


def _experiment(name: str, path: Path | None, as_json: bool) -> None:
    from rich.console import Console

    from pagesim.sim.console import progress
    from pagesim.sim.experiments.catalogue import experiment
    from pagesim.sim.experiments.table import print_table
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.serving.server import serve
    from pagesim.sim.serving.steps import steps, write_steps

    chosen = experiment(name)
    with progress("serving", chosen.num_requests) as advance:
        rows = chosen.run(advance)
    if path is not None:
        run = next(iter(chosen.runs.values()))  # the first is what the experiment is named for
        write_steps(path, steps(serve(run.trace, run.config, run.step_time)))
    if as_json:
        answer = {"name": name, "shows": chosen.shows, "assumed": chosen.assumed, "rows": [r.as_json() for r in rows]}
        print(dumps({"schema": "pagesim.experiments/1", "experiments": [answer]}))
    else:
        print_table(Console(), chosen, rows)
    _told(path, as_json)


def _recording(file: Path, path: Path | None, as_json: bool) -> None:
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
    _told(path, as_json)


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
    for name, value in answer["totals"].items():
        recorded = answer["recorded"].get(name)
        table.add_row(name.replace("_", " "), f"{value:,}", "-" if recorded is None else f"{recorded:,}")
    console = Console(highlight=False, markup=False)
    console.print(f"{answer['name']}: {answer['requests']:,} requests, {answer['config']['num_blocks']:,} blocks")
    console.print(table)


def _told(path: Path | None, as_json: bool) -> None:
    if path is not None:
        print(f"steps: {path}", file=sys.stderr if as_json else sys.stdout)
