"""JSON Lines traces as batches of columns.

msgspec decodes each line into a typed struct; a block of lines becomes columns at once, so no list of rows is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pagesim.sim.errors import TraceError
from pagesim.sim.readers.intake import A_COUNT, A_LENGTH, A_PRIORITY, A_TIME
from pagesim.sim.readers.json_formats import JsonFormat
from pagesim.sim.readers.row_batch import LABELS, Names, RowBatch, Shape
from pagesim.sim.readers.text_columns import numbers
from pagesim.sim.readers.trace_file import BOM, MAX_LINE_BYTES, OnProgress, opened, shown
from pagesim.sim.trace import HashIds

BLOCK_BYTES = 2**22

ACCEPTED = {
    "arrival": A_TIME,
    "prompt_tokens": A_LENGTH,
    "output_tokens": A_LENGTH,
    "hash_ids": "a list of whole numbers",
    "n": A_COUNT,
    "priority": A_PRIORITY,
}


class JsonRows:
    """The rows of one JSON Lines file; iterating gives its batches.

    `present`: which of our columns the first row has. `skip_lines`: lines at the top that are no rows.
    """

    def __init__(
        self,
        path: Path,
        kind: JsonFormat,
        shape: Shape,
        present: frozenset[str],
        on_progress: OnProgress | None = None,
        skip_lines: int = 0,
    ) -> None:
        self.path, self.shape, self.on_progress, self.skip_lines = path, shape, on_progress, skip_lines
        self.present = present
        self.names: Mapping[str, Names] = {column: Names() for column in LABELS}
        self._decode = msgspec.json.Decoder(kind.row).decode
        self._required = kind.required
        self._ours = {theirs: ours for ours, theirs in shape.fields.items()}
        self._next_line = 1

    def __iter__(self) -> Iterator[RowBatch]:
        for block in self._blocks():
            lines = block.split(b"\n")
            first, self._next_line = self._next_line, self._next_line + len(lines)
            skipped = max(0, min(len(lines), self.skip_lines + 1 - first))
            yield self._batch(lines[skipped:], first + skipped)

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines, some megabytes at a time, without the last line's end."""
        rest = b""
        with opened(self.path) as file:
            came = 0
            while block := file.stream.read(BLOCK_BYTES):
                whole, end, tail = block.rpartition(b"\n")
                if end:
                    yield (rest + whole).removeprefix(BOM)
                rest = tail if end else rest + tail
                if len(rest) > MAX_LINE_BYTES:
                    where = f"{self.path}, line {self._next_line}"
                    raise TraceError(f"{where}: is longer than {MAX_LINE_BYTES:,} bytes; accepted: one request a line")
                if self.on_progress:
                    came, before = file.raw.tell(), came
                    self.on_progress(came - before)
        if rest:
            yield rest.removeprefix(BOM)

    def _batch(self, lines: list[bytes], first: int) -> RowBatch:
        numbers_of_lines = np.arange(first, first + len(lines))
        lost: list[tuple[int, str]] = []
        blank = 0
        try:
            rows = [self._decode(line) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError):
            rows, kept, lost, blank = self._one_by_one(lines, first)
            numbers_of_lines = np.array(kept, np.int64)
        return self._columns(rows, numbers_of_lines, tuple(lost), blank)

    def _one_by_one(self, lines: list[bytes], first: int) -> tuple[list[Any], list[int], list[tuple[int, str]], int]:
        """(rows, their line numbers, what is no row and why, number of blank lines)."""
        rows, kept, lost, blank = [], [], [], 0
        for number, line in enumerate(lines, first):
            if not line.strip():
                blank += 1
                continue
            try:
                rows.append(self._decode(line))
                kept.append(number)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                lost.append((number, self._explain(line, str(error))))
        return rows, kept, lost, blank

    def _explain(self, line: bytes, reason: str) -> str:
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"is not JSON ({error}): {shown(line.decode(errors='replace'))}"
        if not isinstance(row, dict):
            return f"is {shown(row)}; accepted: a JSON object with {', '.join(self._required)}"
        absent = [name for name in self._required if name not in row]
        if absent:
            return f"has no {absent[0]}; accepted: {', '.join(self._required)} in every row"
        named = re.search(r"\$\.(\w+)", reason)
        if named is None or named[1] not in row:
            return shown(reason, 200)
        value = shown(msgspec.json.encode(row[named[1]]).decode())
        return f"{named[1]} is {value}; accepted: {ACCEPTED.get(self._ours.get(named[1], ''), reason.split(' - ')[0])}"

    def _columns(
        self, rows: list[Any], lines: NDArray[np.int64], lost: tuple[tuple[int, str], ...], blank: int
    ) -> RowBatch:
        problems: dict[int, str] = {}
        columns = {name: [getattr(row, theirs) for row in rows] for name, theirs in self.shape.fields.items()}
        arrival = self._times(columns["arrival"], problems)
        prompt, output = (np.array(columns[name], np.float64) for name in ("prompt_tokens", "output_tokens"))
        ids, whole = None, {}
        for name in columns:
            if name in LABELS:
                labels = [str(value) if isinstance(value, int) else value for value in columns[name]]
                whole[name] = self.names[name].codes(labels)
            elif name == "hash_ids" and self._even(columns[name], name, problems):
                ids = hashes([value or [] for value in columns[name]])
            elif name in ("n", "priority", "chat_id", "parent_chat_id") and self._even(columns[name], name, problems):
                whole[name] = np.array([1 if value is None else value for value in columns[name]], np.int64)
        return RowBatch(lines, arrival, prompt, output, ids, whole, problems, lost, blank)

    def _times(self, values: list[Any], problems: dict[int, str]) -> NDArray[np.float64]:
        if values and isinstance(values[0], str):
            return numbers(pa.array(values), self.shape.fields["arrival"], A_TIME, problems)
        return np.array(values, np.float64)

    def _even(self, values: list[Any], name: str, problems: dict[int, str]) -> bool:
        """Whether the column is there, which the first row decides; a row that differs from it is a problem."""
        there = name in self.present
        for row, value in enumerate(values):
            if (value is not None) != there:
                has = "has no" if there else "has"
                wanted = "as in the first row" if there else "none, as in the first row"
                problems.setdefault(
                    row, f"{has} {self.shape.fields[name]}; accepted: {ACCEPTED[name] if there else wanted}"
                )
        return there


def hashes(rows: list[list[int]]) -> HashIds:
    """Lists of ids as one column."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=offsets[1:])
    return HashIds(np.fromiter(chain.from_iterable(rows), np.int64, int(offsets[-1])), offsets)
