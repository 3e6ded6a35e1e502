"""Columns of text as numbers and dates, at the speed of whole columns; value by value only where one is bad.

A value that cannot be read becomes a problem of its row (a message, by position), and stands as NaN or 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pagesim.sim.trace_file import shown

Problems = dict[int, str]


def not_blank(columns: list[Any]) -> NDArray[np.bool_]:
    """Rows in which at least one of these text columns holds anything."""
    lengths = [pc.binary_length(column).to_numpy(zero_copy_only=False) for column in columns]
    filled: NDArray[np.bool_] = np.logical_or.reduce([length > 0 for length in lengths])
    return filled


def numbers(column: Any, name: str, accepted: str, problems: Problems) -> NDArray[np.float64]:
    """Text as float64 [rows]. `name` and `accepted` are for the message of a value that is no number."""
    try:
        whole: NDArray[np.float64] = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        return whole
    except pa.ArrowInvalid:
        found = [_cast(text, [pa.float64()]) for text in _texts(column)]
    _tell(column, found, name, accepted, problems)
    return np.array([np.nan if value is None else value.as_py() for value in found], np.float64)


def dates(column: Any, name: str, problems: Problems) -> NDArray[np.int64]:
    """Text as nanoseconds since 1970, int64 [rows]. A date without a zone is UTC."""
    kinds: list[Any] = [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    for kind in kinds:
        try:
            return np.asarray(pc.cast(column, kind).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
        except pa.ArrowInvalid:
            continue
    found = [_cast(text, kinds) for text in _texts(column)]
    accepted = "a date such as 2023-11-16 18:17:03.9799600, with or without a zone"
    _tell(column, found, name, accepted, problems)
    return np.array([0 if value is None else value.value for value in found], np.int64)


def _cast(text: str, kinds: list[Any]) -> Any:
    """The text as a scalar of the first kind that takes it, or None."""
    for kind in kinds:
        try:
            return pa.scalar(text).cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _tell(column: Any, found: list[Any], name: str, accepted: str, problems: Problems) -> None:
    for row, (text, value) in enumerate(zip(_texts(column), found, strict=True)):
        if value is None:
            problems.setdefault(row, f"{name} is '{shown(text)}'; accepted: {accepted}")


def _texts(column: Any) -> Iterator[str]:
    for value in column.to_pylist():
        yield value.strip()
