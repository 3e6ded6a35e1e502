"""Plotly figures from a saved result. No figure computes a result: it shows the numbers that are there.

Colours are of the colour-blind-safe palette of Okabe and Ito; every series also has its name beside it or a pattern of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.result import AllocatorResult, RunResult
from pagesim.sim.serving.result import ServingResult

PARTS = {  # part of the pool: (colour, pattern, what it means)
    "used": ("#0072B2", "", "holds a token"),
    "reserved": ("#56B4E9", "/", "owned, to be filled"),
    "internal": ("#E69F00", "x", "owned, never filled"),
    "free": ("#F0F0F0", "", "not owned"),
}
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
SHORTEST = 64  # of the lengths whose capacity is shown
PLOT_HEIGHT = 260
TITLE_HEIGHT = 60  # of an axis, under its plot
ENTRY_HEIGHT = 20  # of a line of the legend: on a phone each entry has a line of its own


class PoolSeries(Protocol):
    """Shares of the pool over time."""

    @property
    def end_s(self) -> list[float]:
        """Where each interval ends; the others, named as in PARTS, are means over it."""


def account_over_time(result: RunResult | ServingResult) -> go.Figure:
    """Used, reserved, internal and free over time, stacked, one panel for each allocator on one time axis."""
    series: dict[str, PoolSeries] = {name: result.allocators[name].series for name in result.allocators}
    return account_panels(series)


def account_panels(all_series: Mapping[str, PoolSeries]) -> go.Figure:
    """Used, reserved, internal and free over time, stacked, one panel for each name on one time axis."""
    names = list(all_series)
    figure = make_subplots(
        rows=len(names), cols=1, shared_xaxes=True, subplot_titles=names, vertical_spacing=0.24 / len(names)
    )
    for row, name in enumerate(names, start=1):
        series = all_series[name]
        for part, (colour, pattern, meaning) in PARTS.items():
            figure.add_scatter(
                x=series.end_s, y=getattr(series, part), name=f"{part}: {meaning}", legendgroup=part,
                showlegend=row == 1, stackgroup="pool", mode="lines", fillcolor=colour,
                line={"width": 0.5, "color": "#555555"},
                fillpattern={"shape": pattern, "fgcolor": "#555555", "size": 6}, row=row, col=1,
                hovertemplate=f"{part} %{{y:.1%}} at %{{x:.2f}} s<extra>{name}</extra>",
            )  # fmt: skip
    figure.update_yaxes(range=[0, 1], tickformat=".0%")
    figure.update_xaxes(title_text="time, s", row=len(names), col=1)
    return laid_out(figure, 190 * len(names), len(PARTS))


def occupancy_at_refusal(result: RunResult) -> go.Figure:
    """How much of the pool was occupied when requests were refused: the share of refusals at or under each level."""
    figure = go.Figure()
    for name, colour, dash, allocator in _lines(result):
        levels = allocator.occupied_at_refusal
        if levels:
            figure.add_scatter(
                x=levels, y=[k / 100 for k in range(101)], name=name, mode="lines",
                line={"color": colour, "dash": dash},
                hovertemplate=f"{name}: %{{y:.0%}} of refusals at %{{x:.1%}} occupied or less<extra></extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text="occupied at the moment of refusal", tickformat=".2~%")
    figure.update_yaxes(title_text="share of refusals", tickformat=".0%", range=[0, 1.03])
    return laid_out(figure, PLOT_HEIGHT, len(result.allocators))


def refused_by_length(result: RunResult) -> go.Figure:
    """Share of the requests of each length that were refused: contiguous runs refuse the long ones."""
    figure = go.Figure()
    for name, colour, dash, allocator in _lines(result):
        bins = allocator.refused_by_length
        figure.add_scatter(
            x=[b.from_tokens for b in bins], y=[b.refused / b.requests for b in bins], name=name, mode="lines+markers",
            customdata=[[b.to_tokens - 1, b.refused, b.requests] for b in bins], line={"color": colour, "dash": dash},
            hovertemplate=f"{name}, %{{x:,}} to %{{customdata[0]:,}} tokens: %{{customdata[1]:,}} of "
            "%{customdata[2]:,} refused (%{y:.1%})<extra></extra>",
        )  # fmt: skip
    marks = sorted({b.from_tokens for a in result.allocators.values() for b in a.refused_by_length})
    figure.update_xaxes(title_text="length, tokens: from each mark to the next", type="log", **_ticks(marks))
    figure.update_yaxes(title_text="refused", tickformat=".0%", rangemode="tozero")
    return laid_out(figure, PLOT_HEIGHT, len(result.allocators))


def capacity_by_length(result: RunResult) -> go.Figure:
    """Sequences of one length that the empty pool holds: reservations never gain from short ones."""
    pool, longest = result.pool, int(result.config["max_model_len"])
    powers = [SHORTEST << k for k in range(longest.bit_length())]
    lengths = [length for length in powers if length < longest] + [longest]
    blocks = [-(-length // pool.block_size) for length in lengths]
    curves = {
        "reservation": [pool.reservations for _ in lengths],
        "exact-fit": [pool.tokens // length for length in lengths],
        "paged": [pool.num_blocks // block for block in blocks],
    }
    figure = go.Figure()
    for (name, counts), colour, dash in zip(curves.items(), LINES, DASHES, strict=False):
        figure.add_scatter(
            x=lengths, y=counts, name=name, mode="lines+markers", line={"color": colour, "dash": dash},
            hovertemplate=f"{name}: %{{y:,}} sequences of %{{x:,}} tokens<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="length of every sequence, tokens", type="log", **_ticks(lengths))
    figure.update_yaxes(title_text="sequences", type="log", dtick=1)
    return laid_out(figure, PLOT_HEIGHT, len(curves))


def _ticks(lengths: list[int]) -> dict[str, list[int] | list[str]]:
    return {"tickvals": lengths, "ticktext": [f"{length:,}" for length in lengths]}


def laid_out(figure: go.Figure, plot_height: int, entries: int) -> go.Figure:
    """The legend at the foot, with room for all its entries on a narrow screen."""
    foot = TITLE_HEIGHT + ENTRY_HEIGHT * entries
    legend = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
    margin = {"l": 60, "r": 20, "t": 40, "b": foot}
    figure.update_layout(height=plot_height + 40 + foot, showlegend=True, legend=legend, margin=margin)
    return figure


def styled(figure: go.Figure) -> go.Figure:
    """In the type and on the ground that all figures have."""
    return figure.update_layout(template="plotly_white", font={"size": 13})


def _lines(result: RunResult) -> list[tuple[str, str, str, AllocatorResult]]:
    """(name, colour, dash, result) of each allocator."""
    return [
        (name, LINES[k % len(LINES)], DASHES[(k + k // len(LINES)) % len(DASHES)], allocator)
        for k, (name, allocator) in enumerate(result.allocators.items())
    ]
