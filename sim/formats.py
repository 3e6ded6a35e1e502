"""Trace files: which format one is in, told from its first line, and the trace in it.

Azure, BurstGPT, Vidur and Splitwise (CSV); Mooncake and its relatives, Qwen-Bailian, RAGPulse (JSON Lines); our own
(JSON Lines and Parquet). Lists of lengths and ServeGen's rates are known too, but are no traces: they hold no arrivals.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.own_format import own_header, own_shape
from pagesim.sim.readers.csv_rows import CSV_FORMATS, LENGTH_LIST, CsvFormat, CsvRows, header_of
from pagesim.sim.readers.intake import Intake
from pagesim.sim.readers.json_formats import BAILIAN, MOONCAKE, OWN, RAGPULSE, kind_of
from pagesim.sim.readers.json_rows import JsonRows
from pagesim.sim.readers.parquet_rows import ParquetRows
from pagesim.sim.readers.row_batch import Names, RowBatch, Shape
from pagesim.sim.readers.tidying import tidy
from pagesim.sim.readers.trace_file import OnProgress, first_line, is_parquet, shown
from pagesim.sim.reading import ReadOptions, ReadReport
from pagesim.sim.servegen import is_servegen
from pagesim.sim.trace import Ints, Trace

_AS_THE_FILE_IS = ReadOptions()


class Rows(Protocol):
    """The rows of a file of any format: what holds for all, the names met so far, and batches when iterated."""

    shape: Shape
    names: Mapping[str, Names]

    def __iter__(self) -> Iterator[RowBatch]: ...


def read_trace(
    path: Path | str, options: ReadOptions = _AS_THE_FILE_IS, on_progress: OnProgress | None = None
) -> tuple[Trace, ReadReport]:
    """Read a trace of any known format. `on_progress` is told how many bytes of the file have gone by since last time.

    Raises TraceError naming the file, line, field and value of the first thing that is wrong, and what would be
    accepted; UsageError if an option does not fit the file.
    """
    path = Path(path)
    rows = _rows(path, on_progress)
    intake = Intake(path, _settled(path, rows.shape, options), options)
    for batch in rows:
        if not intake.take(batch):
            break
    return tidy(intake, rows.names)


def read_lengths(path: Path) -> tuple[Ints, Ints]:
    """(prompt_tokens, output_tokens), int64 [rows] each, of a list of lengths, or of a trace without its arrivals.

    Raises TraceError as `read_trace` does.
    """
    if not is_parquet(path):
        header = _csv_header(path, first_line(path))
        if header is not None and _is_length_list(header):
            rows = CsvRows(path, LENGTH_LIST, header)
            intake = Intake(path, rows.shape, _AS_THE_FILE_IS)
            for batch in rows:
                intake.take(batch)
            columns = dict(intake.columns())
            return columns["prompt_tokens"], columns["output_tokens"]
    trace, _ = read_trace(path)
    return trace.prompt_tokens, trace.output_tokens


def _settled(path: Path, shape: Shape, options: ReadOptions) -> Shape:
    """The shape, once the number of tokens that a hash id stands for is known."""
    asked, told = options.hash_block_tokens, shape.hash_block_tokens
    if asked is not None and not shape.has_hash_ids:
        raise UsageError(f"hash-block-tokens {asked}: {path} (format {shape.name}) has no hash ids of equal size")
    if asked is not None and shape.name == OWN.shape.name and told not in (None, asked):
        raise UsageError(f"hash-block-tokens {asked}: {path} says itself that its ids stand for {told} tokens")
    if shape.has_hash_ids and asked is None and told is None:
        raise UsageError(f"{path} has hash ids, and does not say of how many tokens: say --hash-block-tokens")
    return replace(shape, hash_block_tokens=asked or told)


def _rows(path: Path, on_progress: OnProgress | None) -> Rows:
    """The rows of a file, by the format its first bytes show. Raises TraceError if that is none, or not a trace."""
    if is_parquet(path):
        return ParquetRows(path, on_progress)
    line = first_line(path)
    header = _csv_header(path, line)
    if header is None:
        return _json_rows(path, line, on_progress)
    return CsvRows(path, _csv_format(path, header), header, on_progress)


def _csv_header(path: Path, line: bytes) -> list[str] | None:
    """The fields of a first line, or None if it is JSON."""
    if line.startswith((b"{", b"[")):
        return None
    try:
        return header_of(line)
    except csv.Error as error:
        raise TraceError(f"{path}, line 1: is not a header that can be read ({error}); {_known()}") from error


def _csv_format(path: Path, header: list[str]) -> CsvFormat:
    kind = max(CSV_FORMATS, key=lambda kind: sum(name in header for name in kind.required))
    absent = [name for name in kind.required if name not in header]
    if not absent:
        return kind
    if _is_length_list(header):
        raise TraceError(
            f"{path}: is a list of lengths without arrivals, not a trace; give it a rate: "
            f"pagesim trace generate --lengths file:{path} --rate R"
        )
    if is_servegen(header):
        raise TraceError(
            f"{path}: holds ServeGen's rates by window, not requests; draw requests from it: "
            f"pagesim trace generate --arrivals servegen:{path}"
        )
    if len(absent) < len(kind.required):
        wanted = ", ".join(kind.required)
        raise TraceError(f"{path}, line 1: has no column {absent[0]}; accepted: {wanted} in a {kind.name} trace")
    raise TraceError(f"{path}, line 1: unknown header '{shown(','.join(header[:20]))}'; {_known()}")


def _is_length_list(header: list[str]) -> bool:
    return "arrived_at" not in header and all(name in header for name in LENGTH_LIST.required)


def _known() -> str:
    rows = [f"{kind.name} ({', '.join(kind.required)})" for kind in CSV_FORMATS]
    lines = [f"{kind.shape.name} ({', '.join(kind.required)})" for kind in (MOONCAKE, BAILIAN, RAGPULSE, OWN)]
    return f"known formats: as CSV, {'; '.join(rows)}; as JSON lines, {'; '.join(lines)}"


def _json_rows(path: Path, line: bytes, on_progress: OnProgress | None) -> JsonRows:
    row = _json_object(path, line)
    skip, header = 0, None
    if "schema" in row:
        skip, header = 1, own_header(path, line)
    kind = OWN if header else kind_of(row)
    absent = [] if kind is None else [name for name in kind.required if name not in row]
    if kind is None or (not header and len(absent) == len(kind.required)):
        raise TraceError(f"{path}, line 1: unknown keys '{shown(', '.join(row))}'; {_known()}")
    if absent and not header:
        wanted = ", ".join(kind.required)
        raise TraceError(f"{path}, line 1: has no {absent[0]}; accepted: {wanted} in a {kind.shape.name} trace")
    if header:
        return JsonRows(path, OWN, own_shape(header), frozenset(header.columns), on_progress, skip)
    known = {*kind.shape.fields.values(), "hash_ids"}  # what becomes of RAGPulse's is told in a note of its own
    left_out = tuple(name for name in row if name not in known)
    has_hash_ids = "hash_ids" in row and kind is not RAGPULSE
    shape = replace(kind.shape, has_hash_ids=has_hash_ids, left_out=left_out)
    return JsonRows(path, kind, shape, frozenset(row), on_progress)


def _json_object(path: Path, line: bytes) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        text = shown(line.decode())
        raise TraceError(f"{path}, line 1: is not JSON ({error}): {text}; accepted: one JSON object a line") from error
    if not isinstance(row, dict):
        raise TraceError(f"{path}, line 1: is not a JSON object; accepted: one JSON object a line for each request")
    return row
