"""Plotly figures of a run in real time: the shares of requests by latency, simulated and measured."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pagesim.sim.figures import PLOT_HEIGHT, laid_out, styled
from pagesim.validate.realtime.figures import LATENCIES
from pagesim.validate.realtime.result import TimeComparison
from pagesim.validate.realtime.words import NAMES
from pagesim.validate.replay.plots import SIDES

SHARES = np.arange(101)


def latencies(time: TimeComparison) -> go.Figure:
    """A row for each latency, a column for each load."""
    titles = [f"{NAMES[name]} at {run.load:g}" for name in LATENCIES for run in time.runs]
    figure = make_subplots(
        rows=len(LATENCIES), cols=len(time.runs), subplot_titles=titles, vertical_spacing=0.12, shared_yaxes=True
    )
    for row, name in enumerate(LATENCIES, start=1):
        for column, run in enumerate(time.runs, start=1):
            for side, line in SIDES.items():
                values = getattr(getattr(run, side), name)
                if len(values):
                    figure.add_scatter(
                        x=np.percentile(values, SHARES, method="inverted_cdf").tolist(), y=(SHARES / 100).tolist(),
                        name=side, legendgroup=side, showlegend=row == column == 1, mode="lines", line=line, row=row,
                        col=column, hovertemplate=f"%{{y:.0%}} within %{{x:.3g}} s<extra>{side}</extra>",
                    )  # fmt: skip
            figure.update_xaxes(title_text="s", type="log", tickangle=0, dtick="D2", row=row, col=column)
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    return styled(laid_out(figure, len(LATENCIES) * PLOT_HEIGHT, len(SIDES)))
