"""The lines of a sweep as curves: what is along the axis, and which curves there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagesim.sim.stats import Interval
from pagesim.sim.sweep.result import SweepResult
from pagesim.sim.sweep.summary import Line
from pagesim.sim.sweep.words import option_words, value_words

LOADS = ("load", "rate")
LENGTHS = ("lengths", "prompt_lengths", "output_lengths", "prompt_share", "trace")
MOST_CURVES = 49  # more have no style of their own
MOST_APART = 6  # of more curves, those that are the same throughout are drawn as one
SAME = " = "  # between the names of these


@dataclass(frozen=True, slots=True)
class Curve:
    """Of one allocator, and one value of another option, if one varies: points in order of x, those without y left
    out."""

    name: str
    x: list[float]
    y: list[Interval]


Points = list[dict[float, Interval]]  # of each figure, by x


@dataclass(frozen=True, slots=True)
class Cliff:
    """The steepest rise of a curve: from the load before it to the one behind it."""

    before: float
    after: float


def numeric_options(result: SweepResult) -> list[str]:
    """Those that vary and have numbers: loads, then those with the most values."""
    counts = {name: len({position(line, name) for line in result.lines} - {None}) for name in result.varied}
    several = [name for name, count in counts.items() if count > 1]
    return sorted(several, key=lambda name: (name not in LOADS, -counts[name]))


def position(line: Line, option: str) -> float | None:
    """Where a line lies along the axis of an option: loads as offered, lengths as their mean."""
    if option in LOADS:
        return line.offered_load
    if option in LENGTHS:
        return line.mean_tokens
    value = line.options[option]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def axis_title(option: str) -> str:
    """What stands under it."""
    if option in LOADS:
        return "load offered"
    return "tokens of a request, in the mean" if option in LENGTHS else option_words(option)


def curves(
    result: SweepResult, along: str, figures: Sequence[str], fixed: Mapping[str, object]
) -> dict[str, list[Curve]]:
    """Figures along an option: by its name, what each allocator has with each value of the next option, a curve of each
    figure. Of the other options, what is `fixed`; of the lines, those that have the first figure. At most MOST_CURVES.
    """
    others = [name for name in result.varied if name != along and not _together(name, along)]
    found: dict[str, Points] = {}
    for line in result.lines:
        x, each = position(line, along), [line.figures.get(figure) for figure in figures]
        if x is not None and each[0] is not None and all(line.options[key] == value for key, value in fixed.items()):
            name = str(line.allocator)
            if others:
                name += f", {option_words(others[0])} {value_words(line.options[others[0]])}"
            for points, y in zip(found.setdefault(name, [{} for _ in figures]), each, strict=True):
                if y is not None:
                    points[x] = y
    merged = _joined(dict(list(_merged(found).items())[:MOST_CURVES]))
    return {name: [Curve(name, sorted(p), [p[x] for x in sorted(p)]) for p in each] for name, each in merged.items()}


def kind_of(name: str) -> str:
    """The allocator of a curve, whatever its rules: exact-fit of exact-fit:best:compact, block size 16."""
    return name.split(",")[0].split(":")[0]


def _joined(found: dict[str, Points]) -> dict[str, Points]:
    """Where there are many, one curve with all their names for those of one kind that are the same throughout."""
    if len(found) <= MOST_APART:
        return found
    same: list[list[str]] = []
    for name, points in found.items():
        kind = kind_of(name)
        alike = next((names for names in same if kind_of(names[0]) == kind and found[names[0]] == points), None)
        if alike is None:
            same.append([name])
        else:
            alike.append(name)
    return {SAME.join(names): found[names[0]] for names in same}


def _merged(found: dict[str, Points]) -> dict[str, Points]:
    """One curve where the other option makes no difference to an allocator."""
    by_allocator: dict[str, list[str]] = {}
    for name in found:
        by_allocator.setdefault(name.split(",")[0], []).append(name)
    merged = {}
    for allocator, names in by_allocator.items():
        if all(found[name] == found[names[0]] for name in names):
            names = [names[0]]
            merged[allocator] = found[names[0]]
        else:
            merged |= {name: found[name] for name in names}
    return merged


def many_curves(result: SweepResult, along: str) -> bool:
    """Whether some may have been left out."""
    others = [name for name in result.varied if name != along and not _together(name, along)]
    pairs = {(line.allocator, str(line.options[others[0]]) if others else None) for line in result.lines}
    return len(pairs) > MOST_CURVES


def fixed_options(result: SweepResult, along: str, figure: str) -> Mapping[str, object]:
    """The options that curves of a figure show one value of, and that."""
    others = [name for name in result.varied if name != along and not _together(name, along)]
    return first_values(result, others[1:], figure)


def first_values(result: SweepResult, names: Sequence[str], figure: str) -> Mapping[str, object]:
    """Of these options, what the first line that has the figure has: the first of all may make no sense, or be of the
    other discipline."""
    first = next((line for line in result.lines if line.figures.get(figure) is not None), result.lines[0])
    return {name: first.options[name] for name in names}


def _together(one: str, other: str) -> bool:
    """Both are lengths, or loads: they share an axis."""
    return any(one in group and other in group for group in (LENGTHS, LOADS))


def cliff(curve: Curve, by_ratio: bool, least: float) -> Cliff | None:
    """Where a curve rises most for each unit of x: by its logarithm, or as it is; None if that is by less than `least`,
    a factor or a difference."""
    best, steepest = None, 0.0
    for k in range(len(curve.x) - 1):
        low, high = curve.y[k].mean, curve.y[k + 1].mean
        if by_ratio and low <= 0:
            continue
        rise = math.log(high / low) if by_ratio and high > 0 else high - low
        slope = rise / (curve.x[k + 1] - curve.x[k])
        if rise >= (math.log(least) if by_ratio else least) and slope > steepest:
            best, steepest = Cliff(curve.x[k], curve.x[k + 1]), slope
    return best


def values(lines: Sequence[Line], option: str) -> list[float]:
    """All positions along an axis, in order."""
    return sorted({x for line in lines if (x := position(line, option)) is not None})
