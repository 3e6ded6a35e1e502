"""Plotly figures of a replay: the simulator's curve, and the engine's over it."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.figures import PARTS, PLOT_HEIGHT, laid_out, styled
from pagesim.validate.replay.log import ReplayLog
from pagesim.validate.replay.logical import Logical
from pagesim.validate.replay.physical import Physical

MOST_POINTS = 2000
SIDES: dict[str, dict[str, str | float]] = {
    "simulator": {"color": "#CC79A7", "width": 6},
    "engine": {"color": "#009E73", "width": 2, "dash": "dot"},
}
COLUMNS = {"running": "requests that run", "waiting": "requests that wait", "blocks_used": "used"}


def schedules(logical: Logical) -> go.Figure:
    """Requests that run and wait, and blocks used, over virtual time: the engine's curve on the simulator's."""
    titles = [f"{logical.experiment.unit} used" if name == "blocks_used" else text for name, text in COLUMNS.items()]
    figure = make_subplots(rows=len(COLUMNS), cols=1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.1)
    logs = {"simulator": None if logical.simulated is None else logical.simulated.replay, logical.side: logical.other}
    for row, column in enumerate(COLUMNS, start=1):
        for side, log in logs.items():
            if log is not None:
                figure.add_scatter(
                    **_curve(log, column), name=side, legendgroup=side, showlegend=row == 1, mode="lines",
                    line={**SIDES[side], "shape": "hv"}, row=row, col=1,
                    hovertemplate=f"%{{y:,}} at %{{x:.3f}} s<extra>{side}</extra>",
                )  # fmt: skip
    if logical.divergence is not None:
        step = logical.divergence.simulator or logical.divergence.other
        if step is not None:
            figure.add_vline(x=step.start_s, line={"color": "#D55E00"}, annotation_text="first divergence")
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(title_text="virtual time, s", row=len(COLUMNS), col=1)
    return styled(laid_out(figure, len(COLUMNS) * PLOT_HEIGHT, len(SIDES)))


def accounts(physical: Physical) -> go.Figure:
    """Used, reserved and internal slots: lines as simulated, marks as read off the real pool."""
    parts = ("used", "reserved", "internal")
    titles = [f"{part}: {PARTS[part][2]}" for part in parts]
    figure = make_subplots(rows=len(parts), cols=1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.1)
    times = [sample.start_s for sample in physical.samples]
    for row, part in enumerate(parts, start=1):
        for side, style in (
            ("simulator", {"mode": "lines", "line": SIDES["simulator"]}),
            ("engine", {"mode": "markers", "marker": {"color": SIDES["engine"]["color"], "size": 4}}),
        ):
            figure.add_scatter(
                x=times, y=[getattr(getattr(sample, side), part) for sample in physical.samples],
                name=f"{side}: {'account' if side == 'simulator' else 'slots of the real pool'}", legendgroup=side,
                showlegend=row == 1, row=row, col=1, **style,
                hovertemplate=f"%{{y:,}} slots at %{{x:.3f}} s<extra>{side}</extra>",
            )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(title_text="virtual time, s", row=len(parts), col=1)
    return styled(laid_out(figure, len(parts) * PLOT_HEIGHT, len(SIDES)))


def _curve(log: ReplayLog, column: str) -> dict[str, list[float]]:
    """At most MOST_POINTS of its steps, evenly spaced."""
    chosen = np.unique(np.linspace(0, max(0, len(log.steps) - 1), MOST_POINTS).astype(int))[: len(log.steps)].tolist()
    return {"x": [log.steps[k].start_s for k in chosen], "y": [getattr(log.steps[k], column) for k in chosen]}
