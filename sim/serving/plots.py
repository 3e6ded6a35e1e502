"""Plotly figures of a run in which requests wait. No figure computes a result: it shows the numbers that are there."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.figures import PLOT_HEIGHT, laid_out, round_numbers, styles, ticks
from pagesim.sim.serving.result import AllocatorResult, ServingResult

LATENCIES = {"ttft_s": "time to the first token", "tpot_s": "time per further token", "e2e_s": "time in all"}


def queue_over_time(result: ServingResult) -> go.Figure:
    """Requests that run, and that wait, over time."""
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, subplot_titles=["running", "waiting"], vertical_spacing=0.12
    )
    for row, what in enumerate(("running", "waiting"), start=1):
        for name, line, allocator in _lines(result):
            series = allocator.series
            figure.add_scatter(
                x=series.end_s, y=getattr(series, what), name=name, legendgroup=name, showlegend=row == 1, mode="lines",
                line=line, row=row, col=1,
                hovertemplate=f"%{{y:,.1f}} {what} at %{{x:.2f}} s<extra>{name}</extra>",
            )  # fmt: skip
    figure.update_yaxes(title_text="requests", rangemode="tozero")
    figure.update_xaxes(title_text="time, s", row=2, col=1)
    return laid_out(figure, 2 * PLOT_HEIGHT, len(result.allocators))


def preemptions_over_time(result: ServingResult) -> go.Figure:
    """Preemptions in each interval, and whose; a curve that has no other beside it is an area under a thin line."""
    figure = go.Figure()
    alone = sum(allocator.preemptions > 0 for allocator in result.allocators.values()) == 1
    area = {"dash": "solid", "width": 1} if alone else {}
    length_s = next(iter(result.allocators.values())).series.end_s[0]
    for name, line, allocator in _lines(result):
        if allocator.preemptions:
            figure.add_scatter(
                x=allocator.series.end_s, y=allocator.series.preemptions, name=name, mode="lines",
                line=line | {"shape": "vh"} | area,
                fill="tozeroy" if alone else None,
                hovertemplate=f"%{{y:,.1f}} preemptions up to %{{x:.2f}} s<extra>{name}</extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text="time, s")
    figure.update_yaxes(title_text=f"preemptions in {length_s:.3g} s", rangemode="tozero")
    return laid_out(figure, PLOT_HEIGHT, len(result.allocators))


def latency(result: ServingResult, which: str) -> go.Figure:
    """The share of requests that had to wait no longer than that; `which` of LATENCIES."""
    figure = go.Figure()
    seen: list[float] = []
    for name, line, allocator in _lines(result):
        values = allocator.percentiles[which]
        seen += values
        if values:
            figure.add_scatter(
                x=values, y=[percent / 100 for percent in range(101)], name=name, mode="lines", line=line,
                hovertemplate=f"%{{y:.0%}} within %{{x:.3g}} s<extra>{name}</extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text=f"{LATENCIES[which]}, s", type="log", **ticks(round_numbers(seen)))
    figure.update_yaxes(title_text="share of requests", tickformat=".0%", range=[0, 1.03])
    return laid_out(figure, PLOT_HEIGHT, len(result.allocators))


def _lines(result: ServingResult) -> list[tuple[str, dict[str, Any], AllocatorResult]]:
    """(name, line, result) of each allocator."""
    each = zip(result.allocators.items(), styles(result.allocators), strict=True)
    return [(name, line, allocator) for (name, allocator), (line, _) in each]
