"""The pages of a sweep and of a frontier: one file each that works without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.offline
from markupsafe import Markup

from pagesim.sim.errors import UsageError
from pagesim.sim.files import write_text
from pagesim.sim.picture import Picture
from pagesim.sim.report import INK_SCRIPT, INK_STYLE, Panel, figure_json, packaged
from pagesim.sim.sweep import plots, words
from pagesim.sim.sweep.plots import Quantity
from pagesim.sim.sweep.result import SweepResult
from pagesim.sim.sweep.series import (
    LOADS,
    MOST_CURVES,
    axis_title,
    fixed_options,
    many_curves,
    numeric_options,
    values,
)

TEMPLATE = "page.html"
ENDS = 2  # values of an option that make no curve: beside another option they are left out
REFUSED = Quantity("refused_share", "refused", share=True)
TTFT = Quantity("ttft_s_p99", "TTFT p99, s", logarithmic=True)
SEQUENCES = Quantity("steady_sequences", "sequences at once")
TOKENS = Quantity("output_tokens_per_s", "output tokens/s")
PREEMPTED = Quantity("preempted_share", "preempted", share=True)
TPOT = Quantity("tpot_s_p50", "TPOT p50, s")
USED = Quantity("used", "used, of the pool", share=True)


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """What is on it, from top to bottom."""

    title: str
    sentences: Sequence[str]
    panels: Sequence[Panel]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    command: str

    def write(self, path: Path) -> None:
        """Raises UsageError if it cannot be written."""
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        template = environment.from_string(files("pagesim.sim.sweep").joinpath(TEMPLATE).read_text(encoding="utf-8"))
        page = template.render(
            title=self.title, sentences=self.sentences, head=self.head, rows=self.rows, command=self.command,
            figures=[(panel.title, panel.caption, figure_json(panel.figure)) for panel in self.panels],
            style=Markup(packaged(INK_STYLE)), script=Markup(packaged(INK_SCRIPT)),
            plotly_js=Markup(plotly.offline.get_plotlyjs()),
        )  # fmt: skip
        write_text(path, page)


def sweep_page(result: SweepResult, command: str) -> Page:
    """Of a sweep."""
    title = f"pagesim sweep: {', '.join(map(words.option_words, result.varied)) or 'one combination'}"
    return Page(
        title, words.sentences(result), sweep_panels(result), words.head(result), words.table_rows(result), command
    )


def sweep_panels(result: SweepResult) -> list[Panel]:
    """What can be drawn of what varies: along each option that has numbers, waste by block size, and maps of two."""
    numeric = numeric_options(result)
    panels = []
    for option in numeric:
        if option in LOADS:
            panels += _knees(result, option)
        elif option == numeric[0] or len(values(result.lines, option)) > ENDS:
            panels += [
                _along(result, option, some) for some in ((SEQUENCES, REFUSED), (TOKENS, TTFT)) if _has(result, some)
            ]
    if "block_size" in numeric:
        caption = "Slots that somebody owns and nobody will fill, of all that are owned: the tail of the last block."
        figure = plots.waste(result)
        caption += _fixed(result, "block_size", plots.NEVER_FILLED, figure)
        panels.append(Panel("Waste by block size", caption, figure))
    if len(numeric) > 1:
        across, up = numeric[:2]
        for quantity in (REFUSED, TTFT):
            if _has(result, [quantity]):
                caption = (
                    f"{quantity.title[0].upper()}{quantity.title[1:]} by {axis_title(across)} and {axis_title(up)}."
                )
                caption += _shown(plots.map_options(result, across, up, quantity))
                panels.append(Panel("The map", caption, plots.heat_map(result, across, up, quantity)))
    return panels


def sweep_picture(result: SweepResult) -> Picture:
    """The first figure of a sweep. Raises UsageError if no option that varies has numbers."""
    panels = sweep_panels(result)
    if not panels:
        raise UsageError("--figure: nothing to draw; accepted: where some option takes several numbers")
    first = panels[0]
    return Picture("sweep", first.title, first.caption, lambda: first.figure)


def _knees(result: SweepResult, option: str) -> list[Panel]:
    cliff = (
        " A triangle stands on the last load before the steepest rise, the cliff; without one a curve nowhere {} from "
        "one load to the next."
    )
    panels = []
    if _has(result, [REFUSED]):
        caption = "Requests refused, and what was used of the pool, along the load."
        figure = plots.along(result, option, (REFUSED, USED), cliffs=True)
        caption += cliff.format("rises by a point") + _fixed(result, option, REFUSED.figure, figure)
        panels.append(Panel("The knee", caption, figure))
    if _has(result, [TTFT]):
        caption = "The wait for the first token, the pace of the answers, and requests put back, along the load."
        figure = plots.along(result, option, (TTFT, TPOT, PREEMPTED), cliffs=True)
        caption += cliff.format("doubles") + _fixed(result, option, TTFT.figure, figure)
        panels.append(Panel("The knee", caption, figure))
    return panels


def _along(result: SweepResult, option: str, quantities: Sequence[Quantity]) -> Panel:
    titles = " and ".join(quantity.title for quantity in quantities)
    figure = plots.along(result, option, quantities)
    caption = f"{titles[0].upper()}{titles[1:]}.{_fixed(result, option, quantities[0].figure, figure)}"
    return Panel(f"By {axis_title(option)}", caption, figure)


def _has(result: SweepResult, quantities: Sequence[Quantity]) -> bool:
    return any(line.figures.get(quantities[0].figure) is not None for line in result.lines)


def _fixed(result: SweepResult, option: str, figure: str, drawn: go.Figure) -> str:
    some = f" There is room for {MOST_CURVES} curves; the results have more." if many_curves(result, option) else ""
    bars = " Bars are 95% intervals over the seeds." if any(trace.error_y.visible for trace in drawn.data) else ""
    return bars + some + _shown(fixed_options(result, option, figure))


def _shown(fixed: Mapping[str, object]) -> str:
    said = ", ".join(f"{words.option_words(name)} {words.value_words(value)}" for name, value in fixed.items())
    return f" Shown for {said}." if said else ""
