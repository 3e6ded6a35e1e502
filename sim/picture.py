"""A figure that a result may have: what it is called, what is to be seen in it, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """`name` is what `pagesim plot --figure` takes. `lacking`: why this result has no such figure; None: it has."""

    name: str
    title: str
    caption: str
    draw: Callable[[], go.Figure]
    lacking: str | None = None
