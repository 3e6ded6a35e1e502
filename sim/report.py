"""The report of a run: one HTML page that works without a network, Plotly inside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import plotly.graph_objects as go
import plotly.io
import plotly.offline
from markupsafe import Markup

from pagesim.sim.allocators import described
from pagesim.sim.figures import styled
from pagesim.sim.files import write_text
from pagesim.sim.poolmap.page import MOST_BYTES, PoolMap, fragment
from pagesim.sim.result import RunResult
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.setting import setting
from pagesim.sim.shown import Shown

TEMPLATE, STYLE, SCRIPT = "report.html", "report.css", "report.js"
INK_STYLE, INK_SCRIPT = "ink.css", "ink.js"  # the script is of all pages, the style of the shorter ones
NAMES_IN_TITLE = 4
ROOM_BYTES = 1_000_000  # of a page under 6 MB, for its figures and its map, beside Plotly and the words


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A figure, its title, and what is to be seen in it."""

    title: str
    caption: str
    figure: go.Figure


def write_report(
    result: RunResult | ServingResult,
    shown: Shown,
    panels: Sequence[Panel],
    path: Path,
    command: str,
    pool_map: PoolMap | None = None,
) -> None:
    """Write the page. `command` is shown as the way to make it again. Raises UsageError if it cannot be written."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(packaged(TEMPLATE))
    figures = [(panel.title, panel.caption, figure_json(panel.figure)) for panel in panels]
    room = ROOM_BYTES - sum(len(text) for _, _, text in figures)  # many allocators have large figures
    page = template.render(
        title=f"{_named(list(result.allocators))} under {_load(result.config)}",
        shown=shown,
        allocators=described(list(result.allocators)),
        columns=list(result.allocators),
        figures=figures,
        setting=setting(result.config, result.pool, result.trace),
        command=command,
        sha256=result.trace.sha256,
        versions=result.versions,
        seed=result.config["seed"] if result.config["trace"] is None else "none: a trace",
        style=Markup(packaged(STYLE)),
        script=Markup(packaged(SCRIPT) + packaged(INK_SCRIPT)),
        map="" if pool_map is None else fragment(pool_map, min(MOST_BYTES, room)),
        plotly_js=Markup(plotly.offline.get_plotlyjs()),
    )
    write_text(path, page)


def packaged(name: str) -> str:
    """The text of a file beside this one."""
    return files("pagesim.sim").joinpath(name).read_text(encoding="utf-8")


def _named(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= NAMES_IN_TITLE else f"{len(names)} allocators"


def _load(config: dict[str, Any]) -> str:
    load, trace = config["load"], config["trace"]
    words = f"load {load}" if load else "its own load"
    return f"{words} of {Path(trace).name}" if trace else words


def figure_json(figure: go.Figure) -> Markup:
    """A figure as a page's script has it."""
    text = json.dumps(json.loads(plotly.io.to_json(styled(figure))), sort_keys=True)
    return Markup(text.replace("<", "\\u003c"))  # no name in it can end the script
