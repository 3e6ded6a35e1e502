"""Several figures of one shape as one figure with a slider, which needs no kernel: Plotly's frames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from pagesim.sim.errors import UsageError

SLIDER_HEIGHT = 90
LABEL_ROOM = 40  # beside the slider, for half of its last label
AIR = 0.04  # of an axis, beyond what is on it
NEAR = 0.2  # of the greatest number: an axis whose least is nearer to 0 than that begins there


def framed(figures: Mapping[str, go.Figure], what: str) -> go.Figure:
    """One figure with a stop for each of `figures`, called by its key; `what` says what the keys are.

    A curve is told by its name and its axes, and may be missing in some. Axes that have no range of their own get one
    that holds all of the figures, so that they can be compared. Raises UsageError unless there is a figure, and one of
    them has the curves of all.
    """
    each = list(figures.values())
    fullest = max(each, key=lambda one: len(one.data), default=go.Figure())
    curves = {_key(trace): trace for trace in fullest.data}
    strange = [trace.name for one in each for trace in one.data if _key(trace) not in curves]
    if not figures or strange:
        found = f"'{strange[0]}' is not in the fullest of them" if strange else "none"
        raise UsageError(f"figures to be frames: {found}; accepted: one or more, one of which has the curves of all")
    figure = go.Figure(fullest)
    figure.frames = [go.Frame(data=_filled(one, curves), name=name) for name, one in figures.items()]
    for trace, first in zip(figure.data, figure.frames[0].data, strict=True):
        trace.update(first)
    for letter in "xy":
        for axis in getattr(figure, f"select_{letter}axes")():
            if axis.range is None:
                axis.range = _range(each, letter, axis)
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps: list[Any] = [{"label": name, "method": "animate", "args": [[name], at_once]} for name in figures]
    foot = figure.layout.margin.b or 80
    figure.update_layout(
        sliders=[
            {"steps": steps, "currentvalue": {"prefix": f"{what}: "}, "y": 0, "pad": {"t": foot + 10, "r": LABEL_ROOM}}
        ],
        margin={"b": foot + SLIDER_HEIGHT},
        height=(figure.layout.height or 450) + SLIDER_HEIGHT,
    )
    return figure


def _key(trace: Any) -> tuple[Any, ...]:
    return (trace.type, trace.name, getattr(trace, "xaxis", None), getattr(trace, "yaxis", None))


def _filled(figure: go.Figure, curves: Mapping[tuple[Any, ...], Any]) -> list[Any]:
    """A curve for each of `curves`, in their order: without points where the figure has none."""
    there = {_key(trace): trace for trace in figure.data}
    return [there[key] if key in there else type(curves[key])(curves[key]).update({"x": [], "y": []}) for key in curves]


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
