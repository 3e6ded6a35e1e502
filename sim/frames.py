"""Several figures of one shape as one figure with a slider, which needs no kernel: Plotly's frames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from pagesim.sim.errors import UsageError

SLIDER_HEIGHT = 70
AIR = 0.04  # of an axis, beyond what is on it
NEAR = 0.2  # of the greatest number: an axis whose least is nearer to 0 than that begins there


def framed(figures: Mapping[str, go.Figure], what: str) -> go.Figure:
    """One figure with a stop for each of `figures`, called by its key; `what` says what the keys are.

    Axes that have no range of their own get one that holds all of the figures, so that they can be compared. Raises
    UsageError unless there is a figure, and all have as many curves, of the same kinds.
    """
    kinds = {tuple(trace.type for trace in figure.data) for figure in figures.values()}
    if len(kinds) != 1:
        raise UsageError(f"{len(figures)} figures of {len(kinds)} shapes; accepted: one or more, of one shape")
    each = list(figures.values())
    figure = go.Figure(each[0])
    figure.frames = [go.Frame(data=one.data, name=name) for name, one in figures.items()]
    for letter in "xy":
        for axis in getattr(figure, f"select_{letter}axes")():
            if axis.range is None:
                axis.range = _range(each, letter, axis)
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps: list[Any] = [{"label": name, "method": "animate", "args": [[name], at_once]} for name in figures]
    foot = figure.layout.margin.b or 80
    figure.update_layout(
        sliders=[{"steps": steps, "currentvalue": {"prefix": f"{what}: "}, "y": 0, "pad": {"t": foot - 10}}],
        margin={"b": foot + SLIDER_HEIGHT},
        height=(figure.layout.height or 450) + SLIDER_HEIGHT,
        legend={"y": SLIDER_HEIGHT / ((figure.layout.height or 450) + SLIDER_HEIGHT), "yref": "container"},
    )
    return figure


def _range(figures: Iterable[go.Figure], letter: str, axis: Any) -> list[float] | None:
    """From the least to the greatest number on an axis, with some air; None if there are no numbers on it."""
    name = axis.plotly_name.replace("axis", "")
    values = [
        float(value)
        for figure in figures
        for trace in figure.data
        if (getattr(trace, f"{letter}axis", None) or letter) == name
        for value in getattr(trace, letter) if isinstance(value, int | float)
    ]  # fmt: skip
    if axis.type == "log":
        values = [math.log10(value) for value in values if value > 0]
    if not values:
        return None
    air = AIR * (max(values) - min(values) or 1.0)
    low = 0.0 if axis.type != "log" and 0 <= min(values) <= NEAR * max(values) else min(values) - air
    return [low, max(values) + air]
