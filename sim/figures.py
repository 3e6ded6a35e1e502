"""Plotly figures from a saved result. No figure computes a result: it shows the numbers that are there.

Colours are of the colour-blind-safe palette of Okabe and Ito: some for parts of the pool, the others for allocators, so
that none means two things; every series also has a pattern, or a dash and a width of its own. Curves that coincide are
seen all: the first are wide, and the later ones narrow, upon them. All colours are to be read on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from typing import Any, Protocol

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.result import AllocatorResult, RunResult
from pagesim.sim.serving.result import ServingResult

PARTS = {  # part of the pool: (colour, pattern, what it means)
    "used": ("#0072B2", "", "holds a token"),
    "reserved": ("#56B4E9", "/", "owned, to be filled"),
    "internal": ("#E69F00", "x", "owned, never filled"),
    "unusable": ("#F0E442", "\\", "free, in pieces too small"),
    "free": ("rgba(127,127,127,0.2)", "", "not owned"),
}
LINES = ("#D55E00", "#009E73", "#CC79A7", "#7F7F7F")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle-open", "square-open", "diamond-open", "cross-open", "triangle-up-open", "x-open")
WIDTHS = (8, 5, 3)
MARKS = (13, 9, 6)  # sizes, as the widths
GRID = "rgba(127,127,127,0.3)"  # seen on white and on black
CLEAR = "rgba(0,0,0,0)"
UNUSED_BUTTONS = ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"]
MOST_TICKS = 7  # of an axis, on a phone
SEVERAL = 30  # from the least to the greatest: powers of ten alone would be too few
SHORTEST = 64  # of the lengths whose capacity is shown
PLOT_HEIGHT = 260
HEAD_HEIGHT = 50  # a panel's title under the buttons that Plotly shows
TITLE_HEIGHT = 60  # of an axis, under its plot
ENTRY_HEIGHT = 20  # of a line of the legend: on a phone each entry has a line of its own


class PoolSeries(Protocol):
    """Shares of the pool over time; `unusable` is part of free."""

    @property
    def end_s(self) -> list[float]:
        """Where each interval ends; the others, named as in PARTS, are means over it."""

    @property
    def unusable(self) -> list[float]:
        """Of free."""


def account_over_time(result: RunResult | ServingResult) -> go.Figure:
    """Used, reserved, internal and free over time, stacked, one panel for each allocator on one time axis."""
    series: dict[str, PoolSeries] = {name: result.allocators[name].series for name in result.allocators}
    return account_panels(series)


def account_panels(all_series: Mapping[str, PoolSeries]) -> go.Figure:
    """Used, reserved, internal and free over time, stacked, one panel for each name on one time axis."""
    names = list(all_series)
    some_unusable = any(any(series.unusable) for series in all_series.values())
    parts = {part: look for part, look in PARTS.items() if part != "unusable" or some_unusable}
    figure = make_subplots(
        rows=len(names), cols=1, shared_xaxes=True, subplot_titles=names, vertical_spacing=0.24 / len(names)
    )
    for row, name in enumerate(names, start=1):
        shares = split_free(all_series[name])
        for part, (colour, pattern, meaning) in parts.items():
            figure.add_scatter(
                x=all_series[name].end_s, y=shares[part], name=f"{part}: {meaning}", legendgroup=part,
                showlegend=row == 1, stackgroup="pool", mode="lines", fillcolor=colour,
                line={"width": 0.5, "color": "#555555"},
                fillpattern={"shape": pattern, "fgcolor": "#555555", "size": 6}, row=row, col=1,
                hovertemplate=f"{part} %{{y:.1%}} at %{{x:.2f}} s<extra>{name}</extra>",
            )  # fmt: skip
    figure.update_yaxes(range=[0, 1], tickformat=".0%")
    figure.update_xaxes(title_text="time, s", row=len(names), col=1)
    return laid_out(figure, 190 * len(names), len(parts))


def split_free(series: PoolSeries) -> dict[str, list[float]]:
    """The parts of PARTS, which add up: free without what was unusable of it."""
    shares: dict[str, list[float]] = {part: getattr(series, part) for part in PARTS}
    pairs = zip(shares["free"], shares["unusable"], strict=True)
    return shares | {"free": [max(0.0, free - unusable) for free, unusable in pairs]}


def occupancy_at_refusal(result: RunResult) -> go.Figure:
    """How much of the pool was occupied when requests were refused: the share of refusals at or under each level."""
    figure = go.Figure()
    for name, line, _, allocator in _lines(result):
        levels = allocator.occupied_at_refusal
        if levels:
            figure.add_scatter(
                x=levels, y=[k / 100 for k in range(101)], name=name, mode="lines", line=line,
                hovertemplate=f"{name}: %{{y:.0%}} of refusals at %{{x:.1%}} occupied or less<extra></extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text="occupied at the moment of refusal", tickformat=".2~%")
    figure.update_yaxes(title_text="share of refusals", tickformat=".0%", range=[0, 1.03])
    return laid_out(figure, PLOT_HEIGHT, len(result.allocators))


def refused_by_length(result: RunResult) -> go.Figure:
    """Share of the requests of each length that were refused: contiguous runs refuse the long ones."""
    figure = go.Figure()
    for name, line, marker, allocator in _lines(result):
        bins = allocator.refused_by_length
        figure.add_scatter(
            x=[b.from_tokens for b in bins], y=[b.refused / b.requests for b in bins], name=name, mode="lines+markers",
            customdata=[[b.to_tokens - 1, b.refused, b.requests] for b in bins], line=line, marker=marker,
            cliponaxis=False,
            hovertemplate=f"{name}, %{{x:,}} to %{{customdata[0]:,}} tokens: %{{customdata[1]:,}} of "
            "%{customdata[2]:,} refused (%{y:.1%})<extra></extra>",
        )  # fmt: skip
    marks = sorted({b.from_tokens for a in result.allocators.values() for b in a.refused_by_length})
    figure.update_xaxes(title_text="length, tokens: from mark to mark", type="log", **ticks(marks))
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
    for (name, counts), (line, marker) in zip(curves.items(), styles(), strict=False):
        figure.add_scatter(
            x=lengths, y=counts, name=name, mode="lines+markers", line=line, marker=marker,
            hovertemplate=f"{name}: %{{y:,}} sequences of %{{x:,}} tokens<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="length of every sequence, tokens", type="log", **ticks(lengths))
    every = [count for counts in curves.values() for count in counts]
    figure.update_yaxes(title_text="sequences", type="log", **ticks(round_numbers(every)))
    return laid_out(figure, PLOT_HEIGHT, len(curves))


def ticks(values: list[float] | list[int]) -> dict[str, Any]:
    """Labels at `values`; of more than MOST_TICKS every second, or third, only."""
    every = -(-len(values) // MOST_TICKS)
    labels = [f"{value:,.12g}" if (len(values) - 1 - k) % every == 0 else "" for k, value in enumerate(values)]
    return {"tickvals": values, "ticktext": labels, "minor": {"ticks": ""}}


def round_numbers(values: Iterable[float]) -> list[float]:
    """1, 2 and 5 times powers of ten among `values`, which are 0 or more; powers alone where that is many."""
    some = [value for value in values if value > 0]
    if not some:
        return [1.0]
    low, high = math.floor(math.log10(min(some))), math.ceil(math.log10(max(some)))
    steps = (1, 2, 5) if high - low <= 2 or max(some) / min(some) < SEVERAL else (1,)
    each = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    inside = [number for number in each if min(some) <= number <= max(some)]
    return inside if len(inside) > 1 else [number for number in each if number <= 10.0**high]


def styles() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(line, marker) for one curve after the other, each unlike all before it."""
    for k in range(len(LINES) * len(DASHES)):
        colour, dash = LINES[k % len(LINES)], DASHES[(k + k // len(LINES)) % len(DASHES)]
        place = min(k, len(WIDTHS) - 1)
        marker = {"symbol": SYMBOLS[k % len(SYMBOLS)], "size": MARKS[place], "line": {"width": 2}}
        yield {"color": colour, "dash": dash, "width": WIDTHS[place]}, marker


def laid_out(figure: go.Figure, plot_height: int, entries: int) -> go.Figure:
    """The legend under the axis, with room for all its entries on a narrow screen."""
    foot = TITLE_HEIGHT + ENTRY_HEIGHT * entries
    legend = {"orientation": "h", "y": -TITLE_HEIGHT / plot_height, "yanchor": "top", "x": 0, "tracegroupgap": 0}
    margin = {"l": 60, "r": 20, "t": HEAD_HEIGHT, "b": foot}
    figure.update_layout(height=HEAD_HEIGHT + plot_height + foot, showlegend=True, legend=legend, margin=margin)
    return figure


def styled(figure: go.Figure) -> go.Figure:
    """In the type that all figures have, on white: pages that are dark too take the ground away and ink the text."""
    figure.update_layout(template="plotly_white", font={"size": 13}, paper_bgcolor="white", plot_bgcolor=CLEAR)
    figure.update_layout(modebar={"bgcolor": CLEAR, "color": "#7F7F7F", "remove": UNUSED_BUTTONS})
    figure.update_xaxes(gridcolor=GRID, zerolinecolor=GRID, linecolor=GRID)
    return figure.update_yaxes(gridcolor=GRID, zerolinecolor=GRID, linecolor=GRID)


def _lines(result: RunResult) -> list[tuple[str, dict[str, Any], dict[str, Any], AllocatorResult]]:
    """(name, line, marker, result) of each allocator."""
    each = zip(result.allocators.items(), cycle(styles()), strict=False)
    return [(name, line, marker, allocator) for (name, allocator), (line, marker) in each]
