"""CSV traces as batches of columns: Azure, BurstGPT, Vidur and Splitwise, and lists of lengths.

Apache Arrow reads the file; every column comes as text and is turned into numbers here, a batch at a time, so that a
bad value can be shown as it stands in the file. Columns are found by name, whatever their order.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from pagesim.sim.errors import TraceError
from pagesim.sim.readers.intake import A_LENGTH, A_TIME
from pagesim.sim.readers.row_batch import NANOSECONDS, Names, RowBatch, Shape
from pagesim.sim.readers.text_columns import Problems, dates, not_blank, numbers
from pagesim.sim.readers.trace_file import BROKEN, CleanText, OnProgress, opened, shown
from pagesim.sim.reading import ZeroOutput

BLOCK_BYTES = 2**20  # no row may be longer
MAX_COLUMNS = 1_000


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """One kind of CSV trace: what it calls arrival (None: it has none), prompt and output, and what else it holds.

    `clock`: arrivals are dates or seconds. `session`: the column of sessions, where the file has it. `tells_apart`:
    columns a trace has no place for, in which rows that are otherwise equal may differ.
    """

    name: str
    arrival: str | None
    prompt: str
    output: str
    clock: Literal["date", "seconds"] = "seconds"
    session: str | None = None
    tells_apart: tuple[str, ...] = ()
    zero_output: ZeroOutput = "stop"

    @property
    def required(self) -> list[str]:
        """The columns without which a file is not of this format."""
        return [name for name in (self.arrival, self.prompt, self.output) if name]

    def shape(self, header: list[str]) -> Shape:
        """What holds for every row of a file with this header."""
        fields = {"arrival": self.arrival or "", "prompt_tokens": self.prompt, "output_tokens": self.output}
        if self.session in header:
            fields["session"] = str(self.session)
        left_out = tuple(name for name in header if name not in fields.values())
        ticks = NANOSECONDS if self.clock == "date" else 1
        return Shape(self.name, fields, ticks, zero_output=self.zero_output, left_out=left_out)


CSV_FORMATS = (
    CsvFormat("azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", clock="date", tells_apart=("NumImages",)),
    CsvFormat(
        "burstgpt",
        "Timestamp",
        "Request tokens",
        "Response tokens",
        session="Session ID",
        tells_apart=("Model", "Log Type", "Elapsed time"),
        zero_output="drop",
    ),
    CsvFormat("vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens"),
)
LENGTH_LIST = CsvFormat("lengths", None, "num_prefill_tokens", "num_decode_tokens")


def header_of(line: bytes) -> list[str]:
    """The column names in a header line."""
    return [name.strip() for name in next(csv.reader([line.decode()]))]


class CsvRows:
    """The rows of one CSV file; iterating gives its batches."""

    def __init__(self, path: Path, kind: CsvFormat, header: list[str], on_progress: OnProgress | None = None) -> None:
        if len(header) > MAX_COLUMNS:
            raise TraceError(f"{path}: has {len(header):,} columns; accepted: up to {MAX_COLUMNS:,}")
        twice = next((name for name in header if header.count(name) > 1 and name in kind.required), None)
        if twice:
            raise TraceError(f"{path}, line 1: column {twice} is there twice; accepted: once")
        self.path, self.kind, self.header, self.on_progress = path, kind, header, on_progress
        self.shape = kind.shape(header)
        self.names: Mapping[str, Names] = {column: Names() for column in ("session", "tells_apart")}
        self._lost: list[tuple[int, str]] = []
        self._next_line = 2  # the header is line 1

    def __iter__(self) -> Iterator[RowBatch]:
        with opened(self.path) as file:
            try:
                came = 0
                for table in self._tables(CleanText(file.stream)):
                    yield self._batch(table)
                    if self.on_progress:
                        came, before = file.raw.tell(), came
                        self.on_progress(came - before)
            except pa.ArrowInvalid as error:
                raise TraceError(self._stopped(str(error))) from error
        if self._lost:
            yield self._nothing_but_lost()

    def _tables(self, stream: Any) -> Iterator[Any]:
        names = [str(k) for k in range(len(self.header))]
        read = pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, skip_rows=1, column_names=names)
        parse = pacsv.ParseOptions(invalid_row_handler=self._lose, ignore_empty_lines=False)
        wanted = [names[self.header.index(name)] for name in self._wanted()]
        text = {name: pa.string() for name in names}
        convert = pacsv.ConvertOptions(check_utf8=False, column_types=text, include_columns=wanted)
        yield from pacsv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)

    def _wanted(self) -> list[str]:
        extra = [name for name in (self.kind.session, *self.kind.tells_apart) if name in self.header]
        return [*self.kind.required, *(name for name in extra if name)]

    def _lose(self, row: Any) -> Literal["skip"]:
        message = f"has {row.actual_columns} fields; accepted: {row.expected_columns}, as in the header"
        self._lost.append((row.number, message))
        return "skip"

    def _stopped(self, reason: str) -> str:
        if "straddling" in reason:
            return f"{self.path}: a line after line {self._next_line - 1} is longer than {BLOCK_BYTES:,} bytes"
        if "Empty CSV" in reason:
            return f"{self.path}: has no rows; accepted: a trace of at least one request"
        return f"{self.path}: is not a CSV that can be read ({shown(reason.splitlines()[0], 200)})"

    def _lines(self, count: int) -> NDArray[np.int64]:
        """Numbers of the next `count` rows that were not lost."""
        lost = [line for line, _ in self._lost]
        ahead = np.arange(self._next_line, self._next_line + count + len(lost))
        lines: NDArray[np.int64] = np.setdiff1d(ahead, lost, assume_unique=True)[:count]
        return lines

    def _batch(self, table: Any) -> RowBatch:
        lines = self._lines(table.num_rows)
        if len(lines):
            self._next_line = int(lines[-1]) + 1
        lost, self._lost = self._lost, [entry for entry in self._lost if entry[0] >= self._next_line]
        columns = dict(zip(self._wanted(), table.columns, strict=True))
        filled = not_blank([columns[name] for name in self.kind.required])
        columns = {name: column.filter(pa.array(filled)) for name, column in columns.items()}
        problems: Problems = {}
        arrival = self._arrivals(columns, int(filled.sum()), problems)
        prompt = numbers(columns[self.kind.prompt], self.shape.fields["prompt_tokens"], A_LENGTH, problems)
        output = numbers(columns[self.kind.output], self.shape.fields["output_tokens"], A_LENGTH, problems)
        batch = RowBatch(
            lines[filled], arrival, prompt, output, whole=self._codes(columns, problems), problems=problems
        )
        kept_lost = tuple(entry for entry in lost if entry[0] < self._next_line)
        return replace(batch, lost=kept_lost, blank_lines=int((~filled).sum()))

    def _arrivals(self, columns: dict[str, Any], count: int, problems: Problems) -> NDArray[Any]:
        if self.kind.arrival is None:
            return np.zeros(count)
        column = columns[self.kind.arrival]
        if self.kind.clock == "date":
            return dates(column, self.kind.arrival, problems)
        return numbers(column, self.kind.arrival, A_TIME, problems)

    def _codes(self, columns: dict[str, Any], problems: Problems) -> dict[str, NDArray[Any]]:
        codes = {}
        session = self.kind.session
        if session in columns:
            codes["session"] = self._encoded("session", columns[session])
            for row in np.flatnonzero(pc.match_substring(columns[session], BROKEN).to_numpy(zero_copy_only=False)):
                problems.setdefault(int(row), f"{session} is not UTF-8 text; accepted: a name in UTF-8")
        rest = [columns[name] for name in self.kind.tells_apart if name in columns]
        if rest:
            joined = rest[0] if len(rest) == 1 else pc.binary_join_element_wise(*rest, "\x1f")
            codes["tells_apart"] = self._encoded("tells_apart", joined)
        return codes

    def _encoded(self, column: str, values: Any) -> NDArray[np.int32]:
        found = values.dictionary_encode()
        words = [word or None for word in found.dictionary.to_pylist()]
        encoded: NDArray[np.int32] = self.names[column].codes(words)[found.indices.to_numpy()]
        return encoded

    def _nothing_but_lost(self) -> RowBatch:
        none = np.zeros(0)
        return RowBatch(np.zeros(0, np.int64), none, none, none, lost=tuple(self._lost))
