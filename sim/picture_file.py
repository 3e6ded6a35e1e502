"""One figure as a file: a page that works without a network, or an image, which a browser draws by way of kaleido."""

from __future__ import annotations

import importlib
from importlib.resources import files
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.io
import plotly.offline
from markupsafe import Markup

from pagesim.sim.errors import UsageError
from pagesim.sim.figures import styled
from pagesim.sim.files import atomic, write_text
from pagesim.sim.picture import Picture
from pagesim.sim.report import INK_SCRIPT, INK_STYLE, figure_json, packaged

TEMPLATE = "plot_page.html"
PAGE = "html"
IMAGES = ("png", "svg", "pdf")
WIDTH_PX = 900
SCALE = 2.0
WIDEST_PX = 10_000
FINEST = 10.0
OR_PAGE = "or --out with .html, which needs neither kaleido nor a browser"
NO_BROWSER = ("ChromeNotFoundError", "BrowserFailedError", "BrowserDepsError", "BrowserClosedError")


def kind_of(path: Path) -> str:
    """What a file is by its name. Raises UsageError if that is none of ours."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in (PAGE, *IMAGES):
        raise UsageError(f"{path}: ends in '{path.suffix}'; accepted: {', '.join(f'.{k}' for k in (PAGE, *IMAGES))}")
    return kind


def write_picture(picture: Picture, path: Path, width_px: int = WIDTH_PX, scale: float = SCALE) -> None:
    """Draw it into `path`, by its ending. `width_px` and `scale` (dots a pixel of a png) are of images.

    Raises UsageError if it cannot be written, or, for an image, if kaleido or a browser is missing.
    """
    kind = kind_of(path)
    for flag, value, most in (("--width", width_px, WIDEST_PX), ("--scale", scale, FINEST)):
        if not 0 < value <= most:
            raise UsageError(f"{flag} {value:g}; accepted: more than 0, up to {most:g}")
    if kind == PAGE:
        write_text(path, _page(picture))
        return
    image = _image(styled(picture.draw()), kind, width_px, scale)
    with atomic(path) as temporary:
        temporary.write_bytes(image)


def _page(picture: Picture) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(files("pagesim.sim").joinpath(TEMPLATE).read_text(encoding="utf-8"))
    return template.render(
        title=picture.title,
        caption=picture.caption,
        json=figure_json(picture.draw()),
        style=Markup(packaged(INK_STYLE)),
        script=Markup(packaged(INK_SCRIPT)),
        plotly_js=Markup(plotly.offline.get_plotlyjs()),
    )


def _image(figure: go.Figure, kind: str, width_px: int, scale: float) -> bytes:
    """The bytes of an image. What goes wrong in kaleido is of many types, and of which depends on its version."""
    try:
        importlib.import_module("kaleido")
    except ImportError as error:
        raise UsageError(
            f"a .{kind} is drawn by kaleido, which is not installed; accepted: pip install 'pagesim[images]', {OR_PAGE}"
        ) from error
    try:
        image: bytes = plotly.io.to_image(figure, format=kind, width=width_px, scale=scale)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if _is_of_browser(error):
            raise UsageError(
                f"a .{kind} is drawn by a browser, and none could be started; accepted: install Chrome or Chromium, or "
                f"name it in BROWSER_PATH, {OR_PAGE}"
            ) from error
        raise UsageError(
            f"kaleido could not draw a .{kind} ({reason[:300]}); accepted: a figure that it can, {OR_PAGE}"
        ) from error
    return image


def _is_of_browser(error: BaseException | None) -> bool:
    while error is not None:
        if type(error).__name__ in NO_BROWSER or "chrome" in str(error).lower():
            return True
        error = error.__cause__ or error.__context__
    return False
