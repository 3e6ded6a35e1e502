"""Columns of text as numbers and dates, at the speed of whole columns.

A column that cannot be read whole is read by halves, and those again, until the values that are bad stand alone: each
becomes a problem of its row (a message, by position), and stands as NaN or 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pagesim.sim.readers.trace_file import shown

Problems = dict[int, str]
Cast = Callable[[Any], NDArray[Any]]

A_DATE = "a date such as 2023-11-16 18:17:03.9799600, with or without a zone"


def not_blank(columns: list[Any]) -> NDArray[np.bool_]:
    """Rows in which at least one of these text columns holds anything."""
    lengths = [pc.binary_length(column).to_numpy(zero_copy_only=False) for column in columns]
    filled: NDArray[np.bool_] = np.logical_or.reduce([length > 0 for length in lengths])
    return filled


def numbers(column: Any, name: str, accepted: str, problems: Problems) -> NDArray[np.float64]:
    """Text as float64 [rows]. `name` and `accepted` are for the message of a value that is no number."""
    return _read(column, _as_numbers, np.full(1, np.nan), f"{name} is '{{}}'; accepted: {accepted}", problems)


def dates(column: Any, name: str, problems: Problems) -> NDArray[np.int64]:
    """Text as nanoseconds since 1970, int64 [rows]. A date without a zone is UTC."""
    return _read(column, _as_dates, np.zeros(1, np.int64), f"{name} is '{{}}'; accepted: {A_DATE}", problems)


def _as_numbers(column: Any) -> NDArray[np.float64]:
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))


def _as_dates(column: Any) -> NDArray[np.int64]:
    try:
        dated = pc.cast(column, pa.timestamp("ns"))
    except pa.ArrowInvalid:
        dated = pc.cast(column, pa.timestamp("ns", "UTC"))
    return np.asarray(dated.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _read(column: Any, cast: Cast, missing: NDArray[Any], message: str, problems: Problems) -> NDArray[Any]:
    try:
        return cast(column)
    except pa.ArrowInvalid:
        bare = pc.utf8_trim_whitespace(column)

    def read(start: int, stop: int) -> list[NDArray[Any]]:
        try:
            return [cast(bare.slice(start, stop - start))]
        except pa.ArrowInvalid:
            if stop - start > 1:
                half = (start + stop) // 2
                return read(start, half) + read(half, stop)
        problems.setdefault(start, message.format(shown(bare[start].as_py())))
        return [missing]

    return np.concatenate(read(0, len(bare)))
