"""The page of a frontier: what each card, model or rule can take, side by side."""

from __future__ import annotations

import plotly.graph_objects as go

from pagesim.sim.figures import LINES, laid_out
from pagesim.sim.report import Panel
from pagesim.sim.sweep import frontier_words as words
from pagesim.sim.sweep.frontier import Frontier, Line
from pagesim.sim.sweep.page import Page

LINE_HEIGHT = 40


def frontier_page(lines: list[Line], frontier: Frontier, command: str) -> Page:
    """All of it."""
    caption = (
        f"The highest load at which {frontier.objective.text} holds; bars are 95% intervals over the seeds. What holds "
        "at any load, or at none, has no mark."
    )
    panels = [Panel("The frontier", caption, loads(lines))]
    if len({line.rate_per_s is None for line in lines}) == 1 and lines[0].rate_per_s is not None:
        panels.append(Panel("In requests", "The same in requests a second.", loads(lines, "rate_per_s")))
    title = f"pagesim frontier: {frontier.objective.text}"
    rows = words.rows(lines, frontier)
    return Page(title, words.sentences(lines, frontier), panels, words.head(lines, frontier), rows, command)


def loads(lines: list[Line], which: str = "load") -> go.Figure:
    """A mark with its interval for each line."""
    shown = [line for line in lines if line.state == "found" and getattr(line, which) is not None]
    each = [getattr(line, which) for line in shown]
    figure = go.Figure(
        go.Scatter(
            x=[value.mean for value in each], y=[words.name(line) for line in shown], mode="markers",
            marker={"size": 10, "color": LINES[-1]},  # of no allocator
            error_x={
                "type": "data", "array": [0 if v.high is None else v.high - v.mean for v in each],
                "arrayminus": [0 if v.low is None else v.mean - v.low for v in each],
            },
            hovertemplate="%{y}: %{x:.4g}<extra></extra>",
        )
    )  # fmt: skip
    figure.update_xaxes(title_text="load" if which == "load" else "requests a second", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", automargin=True)
    laid_out(figure, LINE_HEIGHT * max(2, len(shown)), 0)
    return figure.update_layout(showlegend=False)
