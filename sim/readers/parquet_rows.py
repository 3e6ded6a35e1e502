"""Parquet traces of our own as batches of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pagesim.sim.errors import TraceError
from pagesim.sim.own_format import COLUMNS, ROWS_AT_ONCE, SCHEMA, Header, own_header, own_shape
from pagesim.sim.readers.intake import A_COUNT, A_LENGTH, A_PRIORITY, A_TIME
from pagesim.sim.readers.row_batch import LABELS, Names, RowBatch
from pagesim.sim.readers.trace_file import OnProgress, opened, reason
from pagesim.sim.trace import HashIds


class ParquetRows:
    """The rows of one Parquet file of ours; iterating gives its batches."""

    def __init__(self, path: Path, on_progress: OnProgress | None = None) -> None:
        self.path, self.on_progress = path, on_progress
        self.names: Mapping[str, Names] = {column: Names() for column in LABELS}
        with opened(path) as file:
            schema = self._file(file.raw).schema_arrow
        self.columns = [name for name in COLUMNS if name in schema.names]
        absent = [name for name in COLUMNS[:3] if name not in schema.names]
        if absent:
            raise TraceError(
                f"{path}: has no column {absent[0]}; accepted: {', '.join(COLUMNS[:3])} in a Parquet trace"
            )
        told = (schema.metadata or {}).get(b"pagesim")
        header = own_header(path, told) if told else Header(SCHEMA, self.columns)
        left_out = tuple(name for name in schema.names if name not in COLUMNS)
        self.shape = replace(own_shape(header), where="row", left_out=left_out)

    def __iter__(self) -> Iterator[RowBatch]:
        with opened(self.path) as file:
            parquet = self._file(file.raw)
            first, size, rows = 1, self.path.stat().st_size, max(1, parquet.metadata.num_rows)
            try:
                for table in parquet.iter_batches(ROWS_AT_ONCE, columns=self.columns):
                    yield self._batch(table, first)
                    first += table.num_rows
                    if self.on_progress:
                        self.on_progress(size * table.num_rows // rows)
            except (pa.ArrowException, UnicodeDecodeError) as error:
                raise TraceError(f"{self.path}: {reason(error)}") from error

    def _file(self, raw: Any) -> Any:
        try:
            raw.seek(0)
            return pq.ParquetFile(raw)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise TraceError(f"{self.path}: is not a whole Parquet file ({reason(error)})") from error

    def _batch(self, table: Any, first: int) -> RowBatch:
        problems: dict[int, str] = {}
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        arrival, prompt, output = (
            self._numbers(columns[name], name, accepted, problems)
            for name, accepted in zip(COLUMNS[:3], (A_TIME, A_LENGTH, A_LENGTH), strict=True)
        )
        whole = {name: self._codes(columns[name], name) for name in LABELS if name in columns}
        for name, accepted in (("n", A_COUNT), ("priority", A_PRIORITY)):
            if name in columns:
                whole[name] = self._numbers(columns[name], name, accepted, problems)
        ids = self._hashes(columns["hash_ids"], problems) if "hash_ids" in columns else None
        return RowBatch(np.arange(first, first + table.num_rows), arrival, prompt, output, ids, whole, problems)

    def _numbers(self, column: Any, name: str, accepted: str, problems: dict[int, str]) -> NDArray[Any]:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)):
            problems.setdefault(int(row), f"{name} is null; accepted: {accepted}")
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise TraceError(f"{self.path}: column {name} is {column.type}; accepted: numbers")
        if name in ("n", "priority"):
            return np.asarray(column.fill_null(1).cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False))
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    def _codes(self, column: Any, name: str) -> NDArray[np.int32]:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise TraceError(f"{self.path}: column {name} is {column.type}; accepted: strings")
        found = column.dictionary_encode(null_encoding="encode")
        codes: NDArray[np.int32] = self.names[name].codes(found.dictionary.to_pylist())[found.indices.to_numpy()]
        return codes

    def _hashes(self, column: Any, problems: dict[int, str]) -> HashIds:
        if not (pa.types.is_list(column.type) and pa.types.is_integer(column.type.value_type)):
            raise TraceError(f"{self.path}: column hash_ids is {column.type}; accepted: lists of whole numbers")
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)):
            problems.setdefault(int(row), "hash_ids is null; accepted: a list of whole numbers")
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        values = column.flatten().cast(pa.int64()).to_numpy(zero_copy_only=False)
        return HashIds(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]))
