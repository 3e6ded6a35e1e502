"""Plotly figures of a sweep. No figure computes a result: it shows the numbers that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.figures import DASHES, LINES, PLOT_HEIGHT, laid_out
from pagesim.sim.stats import Interval
from pagesim.sim.sweep.result import SweepResult
from pagesim.sim.sweep.series import (
    Cliff,
    Curve,
    axis_title,
    cliff,
    curves,
    first_values,
    fixed_options,
    position,
    values,
)

NEVER_FILLED = "never_filled_share"
SEVERAL_OCTAVES = 7.9  # from the least to the greatest: then the axis is logarithmic


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure as an axis shows it."""

    figure: str
    title: str
    share: bool = False
    logarithmic: bool = False


def along(result: SweepResult, option: str, quantities: Sequence[Quantity], cliffs: bool = False) -> go.Figure:
    """Each quantity along an option, one plot under the other; with `cliffs`, the steepest rise of each curve is marked
    in the first."""
    across = values(result.lines, option)
    octaves = across[0] > 0 and across[-1] / across[0] > SEVERAL_OCTAVES
    figure = make_subplots(rows=len(quantities), cols=1, shared_xaxes=True, vertical_spacing=0.3 / len(quantities) ** 2)
    names: dict[str, int] = {}
    fixed = fixed_options(result, option, quantities[0].figure)
    for row, quantity in enumerate(quantities, start=1):
        for curve in curves(result, option, quantity.figure, fixed):
            new = curve.name not in names
            number = names.setdefault(curve.name, len(names))
            figure.add_trace(_line(curve, number, quantity, legend=new), row, 1)
            if cliffs and row == 1 and (found := _cliff(curve, quantity)) is not None:
                figure.add_trace(_mark(curve, number, found), row, 1)
        kind: dict[str, object] = {"tickformat": ".0%" if quantity.share else None}
        if quantity.logarithmic or (octaves and not quantity.share):
            kind = {"type": "log", "dtick": 1 if quantity.logarithmic else "D2"}
        figure.update_yaxes(title_text=quantity.title, rangemode="tozero", row=row, col=1, **kind)
    if octaves:
        figure.update_xaxes(type="log", tickvals=across, ticktext=[f"{x:,.3g}" for x in across])
    figure.update_xaxes(title_text=axis_title(option), row=len(quantities), col=1)
    return laid_out(figure, PLOT_HEIGHT * len(quantities), len(names) + cliffs)


def _line(curve: Curve, number: int, quantity: Quantity, legend: bool) -> go.Scatter:
    text = ".1%" if quantity.share else ",.4g"
    return go.Scatter(
        x=curve.x, y=[value.mean for value in curve.y], name=curve.name, legendgroup=curve.name, showlegend=legend,
        mode="lines+markers", error_y=_bars(curve.y),
        line={"color": LINES[number % len(LINES)], "dash": DASHES[(number + number // len(LINES)) % len(DASHES)]},
        hovertemplate=f"{curve.name}: %{{y:{text}}} at %{{x:.4g}}<extra></extra>",
    )  # fmt: skip


def _bars(y: Sequence[Interval]) -> dict[str, object]:
    up = [0.0 if value.high is None else value.high - value.mean for value in y]
    down = [0.0 if value.low is None else value.mean - value.low for value in y]
    return {"type": "data", "array": up, "arrayminus": down, "thickness": 1, "width": 3, "visible": any(up + down)}


def _cliff(curve: Curve, quantity: Quantity) -> Cliff | None:
    return cliff(curve, True, 2.0) if quantity.logarithmic else cliff(curve, False, 0.01)


def _mark(curve: Curve, number: int, found: Cliff) -> go.Scatter:
    """On the last point before the rise."""
    return go.Scatter(
        x=[found.before], y=[curve.y[curve.x.index(found.before)].mean], mode="markers", legendgroup=curve.name,
        showlegend=False, marker={"symbol": "triangle-down", "size": 14, "color": LINES[number % len(LINES)]},
        hovertemplate=f"{curve.name}: the cliff, from {found.before:.4g} to {found.after:.4g}<extra></extra>",
    )  # fmt: skip


def waste(result: SweepResult) -> go.Figure:
    """Slots that are owned and never filled, of all that are owned, by block size."""
    figure = go.Figure()
    fixed = fixed_options(result, "block_size", NEVER_FILLED)
    each = curves(result, "block_size", NEVER_FILLED, fixed)
    for number, curve in enumerate(each):
        figure.add_trace(_line(curve, number, Quantity(NEVER_FILLED, "", share=True), True))
    sizes = values(result.lines, "block_size")
    figure.update_xaxes(
        title_text="tokens in a block", type="log", tickvals=sizes, ticktext=[f"{x:,.0f}" for x in sizes]
    )
    figure.update_yaxes(title_text="never filled, of what is owned", tickformat=".0%", rangemode="tozero")
    return laid_out(figure, PLOT_HEIGHT, len(each))


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
            x=[f"{x:,.4g}" for x in columns], y=[f"{y:,.4g}" for y in rows], coloraxis="coloraxis",
            z=[[cells.get((x, y)) for x in columns] for y in rows], row=number, col=1,
            texttemplate="%{z:.1%}" if quantity.share else "%{z:.3g}",
            hovertemplate=f"{name}: %{{z:.4g}} at %{{x}}, %{{y}}<extra></extra>",
        )  # fmt: skip
    figure.update_yaxes(title_text=axis_title(up), type="category")
    figure.update_xaxes(title_text=axis_title(across), type="category")
    figure.update_layout(coloraxis={"colorscale": "Cividis", "colorbar": {"title": {"text": quantity.title}}})
    laid_out(figure, PLOT_HEIGHT * len(names), 0)
    return figure.update_layout(showlegend=False)
