"""A run of consecutive rows of a trace file as columns: what every reader of a format hands on.

Values stand as the file has them: in its unit of time, bad ones included, so that `intake` can judge all formats by the
same rules and name a bad row by the field and value its owner wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.reading import ZeroOutput
from pagesim.sim.trace import Floats, HashIds, Ints

NANOSECONDS = 10**9  # in a second: the ticks of files that write dates
LABELS = ("session", "cache_salt", "adapter")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is the same for every row of one file.

    `fields`: what the file calls each of our columns. `ticks_per_s`: the unit of its arrivals; dates
    are nanoseconds since 1970. `where`: what a row's
    number counts. `zero_output`, `shift`: what this format asks for unless an option says otherwise. `declared`: label
    columns that are there even if no row has a name. `left_out`: columns a trace has no place for.
    """

    name: str
    fields: Mapping[str, str]
    ticks_per_s: int
    where: Literal["line", "row"] = "line"
    zero_output: ZeroOutput = "stop"
    shift: bool = True
    has_hash_ids: bool = False
    hash_block_tokens: int | None = None
    declared: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Rows of one file, in its order.

    `lines`: int64 [rows], numbers of the rows in the file, from 1. `arrival`: [rows], float64 or int64, ticks.
    `prompt_tokens`, `output_tokens`: float64 [rows]. `whole`: further columns of whole numbers, int64 or int32 [rows]:
    labels as codes, `n`, `priority`, and what else tells rows apart. `problems`: what is wrong with rows that could not
    be read, by position. `lost`: lines between these rows that are no rows at all, with what is wrong. `blank_lines`:
    how many lines had nothing on them.
    """

    lines: Ints
    arrival: Floats | Ints
    prompt_tokens: Floats
    output_tokens: Floats
    hash_ids: HashIds | None = None
    whole: dict[str, NDArray[Any]] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    lost: tuple[tuple[int, str], ...] = ()
    blank_lines: int = 0

    def __len__(self) -> int:
        return len(self.lines)


class Names:
    """Codes for the names of one label column, given out as names appear."""

    def __init__(self) -> None:
        self._codes: dict[str | None, int] = {}

    def codes(self, values: list[str | None]) -> NDArray[np.int32]:
        """The code of each name, int32 [values]."""
        give = self._codes
        return np.fromiter((give.setdefault(value, len(give)) for value in values), np.int32, len(values))

    def all(self) -> tuple[str | None, ...]:
        """Every name, in the order of its code."""
        return tuple(self._codes)
