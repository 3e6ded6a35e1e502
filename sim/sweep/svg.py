"""Curves as a picture that a README can show: SVG, without a library and without scripts. The pages have Plotly's.

Both axes are linear or logarithmic. Equal curves lie on each other: the later ones are drawn thinner, so that both are
seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pagesim.sim.figures import LINES
from pagesim.sim.sweep.series import Curve

WIDTH, HEIGHT, LEFT, TOP, RIGHT, FOOT = 760, 420, 70, 20, 210, 60
PATTERNS = ("", "7 4", "2 3", "9 3 2 3", "12 4", "12 3 2 3", "1 2")
ENTRY = 18
TICKS = 6
MOST_MARKS = 12  # if there are no more values along the axis, each is marked


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels. `ticks`: where the axis is marked."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """The pixel of a value."""
        low, high, here = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (here - low) / (high - low)


def picture(curves: Sequence[Curve], x_title: str, y_title: str, log_x: bool = False, log_y: bool = False) -> str:
    """The text of an SVG file. There must be a curve with two points or more."""
    xs = sorted({x for curve in curves for x in curve.x})
    ys = [value.mean for curve in curves for value in curve.y]
    marks = tuple(xs) if len(xs) <= MOST_MARKS else _round_ticks(xs[0], xs[-1])
    across, up = Scale(xs[0], xs[-1], LEFT, WIDTH - RIGHT, log_x, marks), _upright(ys, log_y)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    parts += _grid(across, up, x_title, y_title)
    for number, curve in enumerate(curves):
        parts += _curve(number, curve, across, up)
    return "\n".join([*parts, "</svg>", ""])


def _upright(ys: Sequence[float], logarithmic: bool) -> Scale:
    if logarithmic:
        positive = [y for y in ys if y > 0]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        high = max(high, low + 1)
        ticks = tuple(10.0**k for k in range(low, high + 1))
        return Scale(ticks[0], ticks[-1], HEIGHT - FOOT, TOP, True, ticks)
    ticks = _round_ticks(0.0, max(max(ys), 1e-9))
    return Scale(0.0, max(ticks[-1], max(ys)), HEIGHT - FOOT, TOP, False, ticks)


def _round_ticks(low: float, high: float) -> tuple[float, ...]:
    rough = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
    return tuple(step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1))


def _grid(across: Scale, up: Scale, x_title: str, y_title: str) -> list[str]:
    bottom, end = HEIGHT - FOOT, WIDTH - RIGHT
    parts = []
    for x in across.ticks:
        at = across.at(x)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#eee"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{x:,.3g}</text>')
    for y in up.ticks:
        at = up.at(y)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{end}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{y:,.4g}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text x="{(LEFT + end) / 2:.0f}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x_title)}</text>')
    turned = f'transform="rotate(-90 16 {middle:.0f})"'
    parts.append(f'<text x="16" y="{middle:.0f}" text-anchor="middle" {turned}>{escape(y_title)}</text>')
    return parts


def _curve(number: int, curve: Curve, across: Scale, up: Scale) -> list[str]:
    pairs = [(x, y.mean) for x, y in zip(curve.x, curve.y, strict=True) if y.mean > 0 or not up.logarithmic]
    points = [(across.at(x), up.at(y)) for x, y in pairs]
    colour, width = LINES[number % len(LINES)], max(1.5, 6 - number / 2)
    pattern = PATTERNS[number % len(PATTERNS)]
    style = f'stroke="{colour}" stroke-width="{width:g}" stroke-dasharray="{pattern or "none"}"'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    left, top = WIDTH - RIGHT + 12, TOP + 8 + ENTRY * number
    return [
        f'<polyline points="{path}" fill="none" {style}/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points),
        f'<line x1="{left}" y1="{top}" x2="{left + 28}" y2="{top}" {style}/>',
        f'<text x="{left + 34}" y="{top + 4}">{escape(curve.name)}</text>',
    ]
