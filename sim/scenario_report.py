"""The report of a scenario: its figures beside the published ones, and the pool of its first run, to be played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np
import plotly.offline
from markupsafe import Markup

from pagesim.sim.facts import versions
from pagesim.sim.figures import account_panels
from pagesim.sim.files import write_text
from pagesim.sim.poolmap.page import fragment
from pagesim.sim.poolmap.record import of_served
from pagesim.sim.poolmap.window import DEFAULT_FRAMES, serving_window
from pagesim.sim.report import INK_SCRIPT, SCRIPT, STYLE, figure_json, packaged
from pagesim.sim.serving.account import pool_means
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.run import SERIES_INTERVALS
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.trace import Trace

TEMPLATE = "scenario.html"


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of a scenario. `rows` go under `head`."""

    title: str
    headline: str
    assumed: str | None
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class FirstRun:
    """The run that is drawn, by its name, and how many there are. `log` is of serving `trace`."""

    name: str
    of_many: int
    trace: Trace
    log: ServingLog


@dataclass(frozen=True, slots=True)
class _Series:
    end_s: list[float]
    used: list[float]
    reserved: list[float]
    internal: list[float]
    unusable: list[float]
    free: list[float]


def write_scenario(told: Told, first: FirstRun, path: Path, command: str) -> None:
    """Write the page. `command` is shown as the way to make it again. Raises UsageError if it cannot be written."""
    allocator, config = first.log.config.allocator, first.log.config
    logs = {allocator: first.log}
    pool_map = of_served(first.trace, logs, serving_window(logs, DEFAULT_FRAMES), 1, config.bytes_per_token)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(packaged(TEMPLATE)).render(
        title=told.title,
        headline=told.headline,
        assumed=told.assumed,
        head=told.head,
        rows=told.rows,
        remarks=told.remarks,
        run=first.name,
        runs=first.of_many,
        figure=figure_json(account_panels({allocator: _series(first.log)})),
        map=fragment(pool_map),
        rules={name: value for name, value in config.as_json().items() if value is not None},
        command=command,
        sha256=first.trace.sha256(),
        versions=versions(),
        style=Markup(packaged(STYLE)),
        script=Markup(packaged(SCRIPT) + packaged(INK_SCRIPT)),
        plotly_js=Markup(plotly.offline.get_plotlyjs()),
    )
    write_text(path, page)


def _series(log: ServingLog) -> _Series:
    means = pool_means(Timeline(log), np.linspace(0, log.end_s or 1.0, SERIES_INTERVALS + 1))
    parts = {name: getattr(means, name).tolist() for name in ("used", "reserved", "internal", "unusable", "free")}
    return _Series(means.edges_s[1:].tolist(), **parts)
