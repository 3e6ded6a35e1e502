"""ServeGen's clients: how fast requests came in each window of ten minutes, and how unevenly. Rates, not requests.

A CSV without a header: time, rate, coefficient of variation, distribution of the gaps, and its two parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from pagesim.sim.errors import TraceError
from pagesim.sim.readers.text_columns import numbers
from pagesim.sim.readers.trace_file import opened, reason, shown
from pagesim.sim.trace import Floats

GapKind = Literal["gamma", "weibull"]

A_FIGURE = "a finite number, 0 or more"
COLUMNS = ("t", "rate", "cv", "kind", "a", "b")
KINDS: dict[str, GapKind | None] = {"Gamma": "gamma", "Weibull": "weibull", "": None}


@dataclass(frozen=True, slots=True, eq=False)
class ServeGenWindows:
    """One client, window by window; each lasts `rate_windows.WINDOW_S`.

    `t_s`: float64 [windows], start, increasing. `rate_per_s`: float64 [windows], requests a second, >= 0. `cv`: float64
    [windows], coefficient of variation of the gaps, >= 0. `kind`: distribution of the gaps, None only where nothing
    came. `a`, `b`: float64 [windows], its shape and scale (seconds).
    """

    t_s: Floats
    rate_per_s: Floats
    cv: Floats
    kind: tuple[GapKind | None, ...]
    a: Floats
    b: Floats

    def __len__(self) -> int:
        return len(self.t_s)


def is_servegen(fields: list[str]) -> bool:
    """Whether the fields of a first line are a window, and not a header."""
    try:
        return len(fields) == len(COLUMNS) and fields[3] in KINDS and float(fields[0]) >= 0 and float(fields[1]) >= 0
    except ValueError:
        return False


def read_servegen(path: Path) -> ServeGenWindows:
    """Read one client's windows. Raises TraceError naming the first bad line, field and value."""
    convert = pacsv.ConvertOptions(column_types={name: pa.string() for name in COLUMNS})
    with opened(path) as file:
        try:
            table = pacsv.read_csv(file.stream, pacsv.ReadOptions(column_names=list(COLUMNS)), convert_options=convert)
        except pa.ArrowInvalid as error:
            raise TraceError(f"{path}: {reason(error)}; accepted: lines of {', '.join(COLUMNS)}") from error
    text = {name: table.column(name).combine_chunks() for name in COLUMNS}
    words = ["" if word is None else str(word) for word in text["kind"].to_pylist()]
    problems: dict[int, str] = {}
    figures = {name: numbers(text[name], name, A_FIGURE, problems) for name in COLUMNS if name != "kind"}
    _judge(figures, words, problems)
    if problems:
        row = min(problems)
        raise TraceError(f"{path}, line {row + 1}: {problems[row]}")
    kinds = tuple(KINDS[word] for word in words)
    return ServeGenWindows(figures["t"], figures["rate"], figures["cv"], kinds, figures["a"], figures["b"])


def _judge(figures: dict[str, Floats], words: list[str], problems: dict[int, str]) -> None:
    """Add what is wrong with each row that could be read."""
    for name, column in figures.items():
        for row in np.flatnonzero(~(np.isfinite(column) & (column >= 0))).tolist():
            problems.setdefault(row, f"{name} is {column[row]:g}; accepted: {A_FIGURE}")
    for row in (np.flatnonzero(np.diff(figures["t"]) <= 0) + 1).tolist():
        problems.setdefault(row, f"t is {figures['t'][row]:g}; accepted: later than the line before")
    for row, (word, rate, a, b) in enumerate(zip(words, *(figures[name] for name in ("rate", "a", "b")), strict=True)):
        if word not in KINDS:
            problems.setdefault(row, f"kind is '{shown(word)}'; accepted: Gamma, Weibull, or nothing at a rate of 0")
        elif rate > 0 and (word == "" or not (a > 0 and b > 0)):
            said = f"kind is '{word}', a {a:g}, b {b:g} at a rate of {rate:g}"
            problems.setdefault(row, f"{said}; accepted: Gamma or Weibull, with a and b above 0")
