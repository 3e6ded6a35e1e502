"""The page of a replay: one file that works without a network."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import jinja2
import plotly.offline
from markupsafe import Markup

from pagesim.sim.files import write_text
from pagesim.sim.report import INK_SCRIPT, INK_STYLE, Panel, figure_json, packaged
from pagesim.validate.realtime import plots as time_plots
from pagesim.validate.realtime import words as time_words
from pagesim.validate.replay import plots, words
from pagesim.validate.replay.result import ReplayResult

TEMPLATE = "report.html"


def write_report(result: ReplayResult, path: Path, command: str) -> None:
    """Write the page. `command` is shown as the way to make it again. Raises UsageError if it cannot be written."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(files("pagesim.validate.replay").joinpath(TEMPLATE).read_text(encoding="utf-8"))
    head, *rows = words.table(result)
    page = template.render(
        agrees=result.agrees,
        verdict=words.verdict(result),
        source=result.source,
        findings=words.findings(result),
        divergence="\n".join(words.divergence(result)),
        left_out=words.not_compared(result),
        head=head,
        rows=rows,
        legend=words.LEGEND,
        times=None if result.time is None else time_words.table(result.time),
        times_said=[] if result.time is None else time_words.sentences(result.time),
        figures=[(panel.title, panel.caption, figure_json(panel.figure)) for panel in _panels(result)],
        rules=result.experiment.config.as_json(),
        step_time=result.step_time,
        command=command,
        sha256=result.experiment.trace.sha256(),
        style=Markup(packaged(INK_STYLE)),
        script=Markup(packaged(INK_SCRIPT)),
        plotly_js=Markup(plotly.offline.get_plotlyjs()),
    )
    write_text(path, page)


def _panels(result: ReplayResult) -> list[Panel]:
    caption = "Thick: the simulator. Dotted, over it: the engine. Where they agree there is one curve."
    panels = [Panel("The two schedules", caption, plots.schedules(result.logical))]
    if result.physical is not None:
        caption = (
            "Lines: the simulator's account of the pool. Marks: slots of the engine's cache that were given out, by "
            "whether they hold a token and ever will."
        )
        panels.append(Panel("The pool, as reckoned and as it is", caption, plots.accounts(result.physical)))
    if result.time is not None:
        caption = (
            "The share of requests that had to wait no longer than that, at so many times the rate of the knee. Thick: "
            "simulated. Dotted: measured."
        )
        panels.append(Panel("Latencies in real time", caption, time_plots.latencies(result.time)))
    return panels
