"""pagesim's own trace format, JSON Lines and Parquet: every column of a trace, without loss, in both directions.

JSON Lines: the first line says what the rows hold, each further line is a request; floats are written with the digits
that give back the same bits. Parquet: one column each, the rest in the file's metadata. A trace that is written and
read again has the same content hash.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.files import atomic
from pagesim.sim.readers.json_formats import OWN
from pagesim.sim.readers.row_batch import LABELS, Shape
from pagesim.sim.readers.trace_file import shown
from pagesim.sim.trace import Trace

SCHEMA = "pagesim.trace/1"
ROWS_AT_ONCE = 2**16
COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "hash_ids", *LABELS, "n", "priority")
ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")


class Header(msgspec.Struct):
    """The first line of a JSON Lines file of ours, and the metadata of a Parquet file."""

    schema: str
    columns: list[str]
    hash_block_tokens: int | None = None


def own_shape(header: Header) -> Shape:
    """What holds for every row of a file of ours with this header."""
    return replace(
        OWN.shape,
        has_hash_ids="hash_ids" in header.columns,
        hash_block_tokens=header.hash_block_tokens,
        declared=frozenset(LABELS).intersection(header.columns),
    )


def own_header(path: Path, text: bytes) -> Header:
    """The header in `text`. Raises TraceError if it is not one, or of another version."""
    try:
        header = msgspec.json.decode(text, type=Header)
    except msgspec.DecodeError as error:
        raise TraceError(f"{path}: the header is broken ({error})") from error
    if header.schema != SCHEMA:
        raise TraceError(f"{path}: schema {shown(header.schema)}; accepted: {SCHEMA}")
    unknown = [name for name in header.columns if name not in COLUMNS]
    if unknown:
        raise TraceError(f"{path}: the header names column {shown(unknown[0])}; accepted: {', '.join(COLUMNS)}")
    return header


def check_ending(path: Path) -> str:
    """Which of `ENDINGS` the name has. Raises UsageError if none."""
    ending = next((ending for ending in ENDINGS if path.name.endswith(ending)), None)
    if ending is None:
        raise UsageError(f"{path}: no trace is written by that name; accepted: one ending in {', '.join(ENDINGS)}")
    return ending


def write_trace(trace: Trace, path: Path) -> None:
    """Write by the name's ending: .jsonl, .jsonl.gz or .parquet. The file appears whole or not at all.

    Raises UsageError on another ending, or if the file cannot be written.
    """
    ending = check_ending(path)
    with atomic(path) as temporary:
        if ending == ".parquet":
            _write_parquet(trace, temporary)
        elif ending == ".jsonl":
            with temporary.open("wb") as file:
                _write_lines(trace, file)
        else:  # no name and no time in the gzip header, so that equal traces are equal files
            with temporary.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                _write_lines(trace, packed)


def _header(trace: Trace) -> Header:
    there = [name for name in COLUMNS if getattr(trace, name) is not None]
    return Header(SCHEMA, there, trace.hash_block_tokens)


def _write_lines(trace: Trace, file: IO[bytes] | gzip.GzipFile) -> None:
    header, encode = _header(trace), msgspec.json.Encoder()
    file.write(encode.encode(header) + b"\n")
    for start in range(0, len(trace), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(trace))
        columns = [_values(trace, name, start, stop) for name in header.columns]
        file.write(
            encode.encode_lines([dict(zip(header.columns, row, strict=True)) for row in zip(*columns, strict=True)])
        )


def _values(trace: Trace, name: str, start: int, stop: int) -> list[Any]:
    column = getattr(trace, name)
    if name == "hash_ids":
        return [column[row].tolist() for row in range(start, stop)]
    if name in LABELS:
        return [column.names[code] for code in column.codes[start:stop].tolist()]
    values: list[Any] = column[start:stop].tolist()
    return values


def _write_parquet(trace: Trace, path: Path) -> None:
    header = _header(trace)
    kinds = {"arrival_s": pa.float64(), "hash_ids": pa.list_(pa.int64()), **{name: pa.string() for name in LABELS}}
    schema = pa.schema(
        [(name, kinds.get(name, pa.int64())) for name in header.columns],
        metadata={"pagesim": msgspec.json.encode(header).decode()},
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, len(trace), ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, len(trace))
            arrays = [_array(trace, name, start, stop) for name in header.columns]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _array(trace: Trace, name: str, start: int, stop: int) -> Any:
    column = getattr(trace, name)
    if name == "hash_ids":
        offsets = column.offsets[start : stop + 1]
        values = column.values[offsets[0] : offsets[-1]]
        return pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), pa.array(values))
    if name in LABELS:
        return pa.array(_values(trace, name, start, stop), pa.string())
    return pa.array(column[start:stop])
