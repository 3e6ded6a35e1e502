"""Plotly figures from a saved result. No figure computes a result: it shows the numbers that are there.

Colours are of the colour-blind-safe palette of Okabe and Ito; every series also has its name beside it or a pattern of
its own.
"""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.result import AllocatorResult, RunResult

PARTS = {  # part of the pool: (colour, pattern, what it means)
    "used": ("#0072B2", "", "holds a token"),
    "reserved": ("#56B4E9", "/", "owned, to be filled"),
    "internal": ("#E69F00", "x", "owned, never filled"),
    "free": ("#F0F0F0", "", "not owned"),
}
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
LENGTHS = (64, 128, 256, 512, 1024, 2048)
LOG_OF_2 = 0.30103  # a tick at every power of two
LEGEND = {"orientation": "h", "y": -0.3}
MARGIN = {"l": 60, "r": 20, "t": 40, "b": 50}


def account_over_time(result: RunResult) -> go.Figure:
    """Used, reserved, internal and free over time, stacked, one panel for each allocator on one time axis."""
    names = list(result.allocators)
    figure = make_subplots(
        rows=len(names), cols=1, shared_xaxes=True, subplot_titles=names, vertical_spacing=0.24 / len(names)
    )
    for row, name in enumerate(names, start=1):
        series = result.allocators[name].series
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
    figure.update_layout(height=120 + 190 * len(names), legend=LEGEND | {"y": -0.2}, margin=MARGIN)
    return figure


def occupancy_at_refusal(result: RunResult) -> go.Figure:
    """How much of the pool was occupied when requests were refused: the share of refusals at or under each level."""
    figure = go.Figure()
    for name, colour, dash, allocator in _lines(result):
        counts = allocator.occupied_at_refusal
        total = sum(counts)
        if total:
            levels = [(k + 1) / len(counts) for k in range(len(counts))]
            below = [sum(counts[: k + 1]) / total for k in range(len(counts))]
            figure.add_scatter(
                x=levels, y=below, name=name, mode="lines", line={"color": colour, "dash": dash, "shape": "hv"},
                hovertemplate=f"{name}: %{{y:.0%}} of refusals at %{{x:.1%}} occupied or less<extra></extra>",
            )  # fmt: skip
    low = min((x for trace in figure.data for x, y in zip(trace.x, trace.y, strict=True) if y > 0), default=0.0)
    figure.update_xaxes(
        title_text="occupied at the moment of refusal", tickformat=".0%", range=[max(0, low - 0.03), 1.005]
    )
    figure.update_yaxes(title_text="share of refusals", tickformat=".0%", range=[0, 1.03])
    figure.update_layout(height=360, showlegend=True, legend=LEGEND, margin=MARGIN)
    return figure


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
    figure.update_xaxes(title_text="length, tokens: from each mark to the next", type="log", dtick=LOG_OF_2)
    figure.update_yaxes(title_text="refused", tickformat=".0%", rangemode="tozero")
    figure.update_layout(height=360, showlegend=True, legend=LEGEND, margin=MARGIN)
    return figure


def capacity_by_length(result: RunResult) -> go.Figure:
    """Sequences of one length that the empty pool holds: reservations never gain from short ones."""
    pool, longest = result.pool, int(result.config["max_model_len"])
    lengths = [length for length in LENGTHS if length < longest] + [longest]
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
    figure.update_xaxes(title_text="length of every sequence, tokens", type="log", tickvals=lengths)
    figure.update_yaxes(title_text="sequences", type="log", dtick=1)
    figure.update_layout(height=360, legend=LEGEND, margin=MARGIN)
    return figure


def _lines(result: RunResult) -> list[tuple[str, str, str, AllocatorResult]]:
    """(name, colour, dash, result) of each allocator."""
    return [
        (name, LINES[k % len(LINES)], DASHES[(k + k // len(LINES)) % len(DASHES)], allocator)
        for k, (name, allocator) in enumerate(result.allocators.items())
    ]
