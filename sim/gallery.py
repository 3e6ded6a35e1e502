"""Every figure of a saved result by its name: the one source of the report, of `pagesim plot` and of the notebooks."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go

from pagesim.sim.errors import UsageError
from pagesim.sim.figures import styled
from pagesim.sim.picture import Picture
from pagesim.sim.report import Panel
from pagesim.sim.result import RunResult
from pagesim.sim.run_pictures import run_pictures
from pagesim.sim.saved import file_of, load_any
from pagesim.sim.serving.pictures import serving_pictures
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.sound import check_sound

AnyResult = RunResult | ServingResult


def load(path: Path | str) -> AnyResult:
    """A result that `pagesim run --out` saved, of either kind: its file, or its folder. Raises UsageError."""
    result: AnyResult = load_any(path, (RunResult, ServingResult))
    check_sound(result, file_of(path))
    return result


def pictures(result: AnyResult) -> list[Picture]:
    """All figures of results of its kind, those that it lacks among them."""
    return run_pictures(result) if isinstance(result, RunResult) else serving_pictures(result)


def panels(result: AnyResult) -> list[Panel]:
    """Those that it has, drawn, for the report."""
    return [Panel(each.title, each.caption, each.draw()) for each in pictures(result) if each.lacking is None]


def picture(result: AnyResult, name: str) -> Picture:
    """The figure called `name`. Raises UsageError if there is none, or this result lacks it."""
    there = [each.name for each in pictures(result) if each.lacking is None]
    for each in pictures(result):
        if each.name == name and each.lacking is not None:
            raise UsageError(f"figure '{name}': {each.lacking} in this result; accepted: {', '.join(there)}")
        if each.name == name:
            return each
    raise UsageError(f"figure '{name}' is unknown; accepted: {', '.join(there)}")


def draw(result: AnyResult, name: str) -> go.Figure:
    """The figure called `name`, as the report shows it. Raises UsageError as `picture` does."""
    return styled(picture(result, name).draw())
