"""The report of a run: one HTML page that works without a network, Plotly inside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.io
import plotly.offline
from markupsafe import Markup

from pagesim.sim import figures
from pagesim.sim.allocators import described
from pagesim.sim.files import write_text
from pagesim.sim.result import RunResult
from pagesim.sim.run_table import legend, rows
from pagesim.sim.summary import readings, sentences, setting, warning

TEMPLATE = "report.html"
NAMES_IN_TITLE = 4


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    caption: str
    json: Markup


def write_report(result: RunResult, path: Path, command: str) -> None:
    """Write the page. `command` is shown as the way to make it again. Raises UsageError if it cannot be written."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(files("pagesim.sim").joinpath(TEMPLATE).read_text(encoding="utf-8"))
    page = template.render(
        title=f"{_named(list(result.allocators))} under {_load(result)}",
        sentences=sentences(result),
        warning=warning(result),
        readings=readings(result),
        allocators=described(result.allocators),
        columns=list(result.allocators),
        rows=rows(result),
        legend=legend(result),
        figures=_panels(result),
        setting=setting(result),
        command=command,
        sha256=result.trace.sha256,
        versions=result.versions,
        plotly_js=Markup(plotly.offline.get_plotlyjs()),
    )
    write_text(path, page)


def _named(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= NAMES_IN_TITLE else f"{len(names)} allocators"


def _load(result: RunResult) -> str:
    load, trace = result.config["load"], result.config["trace"]
    words = f"load {load}" if load else "its own load"
    return f"{words} of {Path(trace).name}" if trace else words


def _panels(result: RunResult) -> list[_Panel]:
    many = len(result.trace.replications) > 1
    panels = [
        _panel(
            "Where the pool's memory was",
            "Every slot of the pool over time" + (", the mean of all replications" if many else "") + ": used, "
            "reserved, internal and free add up.",
            figures.account_over_time(result),
        )
    ]
    if any(a.refused for a in result.allocators.values()):
        panels += [
            _panel(
                "Full, or merely awkward?",
                "The share of refusals that happened at each occupancy or below. A curve that stays at zero and then "
                "jumps at the right edge refuses when the memory is gone; one that climbs before it refuses while "
                "memory lies free in pieces.",
                figures.occupancy_at_refusal(result),
            ),
            _panel(
                "Who is refused",
                "The share of requests of each length that were refused.",
                figures.refused_by_length(result),
            ),
        ]
    panels.append(
        _panel(
            "What the pool holds",
            "Sequences of one and the same length that the empty pool has room for.",
            figures.capacity_by_length(result),
        )
    )
    return panels


def _panel(title: str, caption: str, figure: go.Figure) -> _Panel:
    figure.update_layout(template="plotly_white", font={"size": 13})
    text = json.dumps(json.loads(plotly.io.to_json(figure)), sort_keys=True)
    return _Panel(title, caption, Markup(text.replace("<", "\\u003c")))  # no name in it can end the script
