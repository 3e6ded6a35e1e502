"""Plotly figures of a sweep. No figure computes a result: it shows the numbers that are there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.figures import DASHES, LINES, PLOT_HEIGHT, laid_out, round_numbers, ticks
from pagesim.sim.setting import percent
from pagesim.sim.stats import Interval
from pagesim.sim.sweep.result import SweepResult
from pagesim.sim.sweep.series import (
    MOST_APART,
    SAME,
    Cliff,
    Curve,
    axis_title,
    cliff,
    curves,
    first_values,
    fixed_options,
    kind_of,
    position,
    values,
)

NEVER_FILLED = "never_filled_share"
SEVERAL_OCTAVES = 7.9  # from the least to the greatest: then the axis is logarithmic
NOTHING_TOP = 0.1  # of the axis of shares that are all 0
WIDTHS = (6, 4, 2)  # of few curves the first and all others, so that some that coincide are seen all
CELL_FONT = 10  # of a map on a phone
MARKERS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure as an axis shows it."""

    figure: str
    title: str
    share: bool = False
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Of one curve."""

    colour: str
    dash: str
    symbol: str
    width: int


def along(result: SweepResult, option: str, quantities: Sequence[Quantity], cliffs: bool = False) -> go.Figure:
    """Each quantity along an option, one plot under the other; with `cliffs`, the steepest rise of each curve is marked
    in the first."""
    across = values(result.lines, option)
    octaves = _octaves(across)
    figure = make_subplots(rows=len(quantities), cols=1, shared_xaxes=True, vertical_spacing=0.3 / len(quantities) ** 2)
    names = [quantity.figure for quantity in quantities]
    each = curves(result, option, names, fixed_options(result, option, names[0]))
    looks = curve_looks(list(each))
    for row, quantity in enumerate(quantities, start=1):
        seen = [y for some in each.values() for y in some[row - 1].y]
        scale = _scale(quantity, seen, octaves)
        for name, some in each.items():
            look, curve = looks[name], some[row - 1]
            line = _line(curve, look, quantity, legend=row == 1, bars=len(each) <= MOST_APART)
            figure.add_trace(line.update(cliponaxis="type" in scale), row, 1)  # a bar may leave a logarithmic axis
            if cliffs and row == 1 and (found := _cliff(curve, quantity)) is not None:
                figure.add_trace(_mark(curve, look, found), row, 1)
        figure.update_yaxes(title_text=quantity.title, row=row, col=1, **scale)
    if octaves:
        figure.update_xaxes(type="log", **_ticks(across))
    figure.update_xaxes(title_text=axis_title(option), row=len(quantities), col=1)
    return laid_out(figure, PLOT_HEIGHT * len(quantities), _entries(each))


def _ticks(positions: list[float]) -> dict[str, object]:
    marks = ticks(positions)
    labels = zip(positions, marks["ticktext"], strict=True)
    return marks | {"ticktext": [_digits(position, 3) if label else "" for position, label in labels]}


def _digits(value: float, count: int) -> str:
    """So many of them, or all before the point."""
    return f"{value:,.0f}" if value >= 10**count else f"{value:,.{count}g}"


def _octaves(some: Sequence[float]) -> bool:
    return len(some) > 0 and min(some) > 0 and max(some) / min(some) > SEVERAL_OCTAVES


def _scale(quantity: Quantity, seen: Sequence[Interval], octaves: bool) -> dict[str, object]:
    """From 0; or logarithmic: waits that are all over 0, and amounts that span as many octaves as what is along."""
    means = [value.mean for value in seen]
    if means and min(means) > 0 and (quantity.logarithmic or (octaves and not quantity.share and _octaves(means))):
        least, most = min(means), max(value.mean if value.high is None else value.high for value in seen)
        room = [math.log10(least) - 0.2, math.log10(most) + 0.1]
        return {"type": "log", "range": room, **ticks(round_numbers(means))}
    if quantity.share:
        return {"tickformat": ".0%", "rangemode": "tozero"} | ({} if any(means) else {"range": [0, NOTHING_TOP]})
    return {"rangemode": "tozero"}


def _entries(names: Iterable[str]) -> int:
    """Lines of the legend on a narrow screen."""
    return sum(1 + name.count(SAME) for name in names)


def curve_looks(names: Sequence[str]) -> dict[str, Look]:
    """The colour tells the kind of allocator, the dash what else varies; of one kind alone, both tell curves apart."""
    kinds = [kind_of(name) for name in names]
    colours = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    looks = {}
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        first = colours[kind] if len(colours) > 1 else number
        place = first + (kinds[:number].count(kind) if len(colours) > 1 else 0)
        dash = DASHES[(place + first // len(LINES)) % len(DASHES)]
        width = WIDTHS[min(number, len(WIDTHS) - 1)] if len(names) <= MOST_APART else WIDTHS[-1]
        looks[name] = Look(LINES[first % len(LINES)], dash, MARKERS[place // len(DASHES) % len(MARKERS)], width)
    return looks


def _line(curve: Curve, look: Look, quantity: Quantity, legend: bool, bars: bool) -> go.Scatter:
    text = ".1%" if quantity.share else ",.4g"
    return go.Scatter(
        x=curve.x, y=[value.mean for value in curve.y], name=curve.name.replace(SAME, f"{SAME}<br>"),
        legendgroup=curve.name, showlegend=legend, mode="lines+markers", error_y=_bars(curve.y) if bars else None,
        cliponaxis=False,
        line={"color": look.colour, "dash": look.dash, "width": look.width},
        marker={"symbol": look.symbol, "size": look.width + 4},
        hovertemplate=f"{curve.name}: %{{y:{text}}} at %{{x:.4g}}<extra></extra>",
    )  # fmt: skip


def _bars(y: Sequence[Interval]) -> dict[str, object]:
    up = [0.0 if value.high is None else value.high - value.mean for value in y]
    down = [0.0 if value.low is None else value.mean - value.low for value in y]
    return {"type": "data", "array": up, "arrayminus": down, "thickness": 1, "width": 3, "visible": any(up + down)}


def _cliff(curve: Curve, quantity: Quantity) -> Cliff | None:
    return cliff(curve, True, 2.0) if quantity.logarithmic else cliff(curve, False, 0.01)


def _mark(curve: Curve, look: Look, found: Cliff) -> go.Scatter:
    """On the last point before the rise."""
    return go.Scatter(
        x=[found.before], y=[curve.y[curve.x.index(found.before)].mean], mode="markers", legendgroup=curve.name,
        showlegend=False, marker={"symbol": "triangle-down", "size": 14, "color": look.colour},
        hovertemplate=f"{curve.name}: the cliff, from {found.before:.4g} to {found.after:.4g}<extra></extra>",
    )  # fmt: skip


def waste(result: SweepResult) -> go.Figure:
    """Slots that are owned and never filled, of all that are owned, by block size."""
    figure = go.Figure()
    each = curves(result, "block_size", [NEVER_FILLED], fixed_options(result, "block_size", NEVER_FILLED))
    looks = curve_looks(list(each))
    for name, (curve,) in each.items():
        quantity = Quantity(NEVER_FILLED, "", share=True)
        figure.add_trace(_line(curve, looks[name], quantity, legend=True, bars=len(each) <= MOST_APART))
    sizes = values(result.lines, "block_size")
    figure.update_xaxes(title_text="tokens in a block", type="log", **_ticks(sizes))
    figure.update_yaxes(title_text="never filled, of what is owned", tickformat=".0%", rangemode="tozero")
    return laid_out(figure, PLOT_HEIGHT, _entries(each))


def map_options(result: SweepResult, across: str, up: str, quantity: Quantity) -> Mapping[str, object]:
    """The options that a map shows one value of, and that."""
    names = [name for name in result.varied if name not in (across, up)]
    return first_values(result, names, quantity.figure)


def heat_map(result: SweepResult, across: str, up: str, quantity: Quantity) -> go.Figure:
    """A quantity over two options, a map for each allocator; of what else varies, one value (`map_options`)."""
    names = list(dict.fromkeys(line.allocator for line in result.lines if line.figures.get(quantity.figure)))
    rest = map_options(result, across, up, quantity)
    figure = make_subplots(rows=len(names), cols=1, subplot_titles=names, vertical_spacing=0.3 / max(1, len(names)))
    columns, rows = values(result.lines, across), values(result.lines, up)
    for number, name in enumerate(names, start=1):
        cells = {
            (position(line, across), position(line, up)): value.mean
            for line in result.lines
            if line.allocator == name
            and all(line.options[key] == said for key, said in rest.items())
            and (value := line.figures.get(quantity.figure)) is not None
        }
        figure.add_heatmap(
            x=[_digits(x, 4) for x in columns], y=[_digits(y, 4) for y in rows], coloraxis="coloraxis",
            z=[[cells.get((x, y)) for x in columns] for y in rows], row=number, col=1,
            text=[[_cell(cells.get((x, y)), quantity) for x in columns] for y in rows], texttemplate="%{text}",
            textfont={"size": CELL_FONT},
            hovertemplate=f"{name}: %{{text}} at %{{x}}, %{{y}}<extra></extra>",
        )  # fmt: skip
    figure.update_yaxes(title_text=axis_title(up), type="category")
    figure.update_xaxes(title_text=axis_title(across), type="category")
    bar = {"title": {"text": quantity.title}, "thickness": 14, "tickformat": ".0%" if quantity.share else None}
    figure.update_layout(coloraxis={"colorscale": "Cividis", "colorbar": bar})
    laid_out(figure, PLOT_HEIGHT * len(names), 0)
    return figure.update_layout(showlegend=False)


def _cell(value: float | None, quantity: Quantity) -> str:
    """As the table has it: a share to a tenth of a percent."""
    if value is None:
        return ""
    return percent(value) if quantity.share else f"{value:,.3g}"
