"""The results of a sweep as one Parquet file: a row for each variant, seed and allocator, in that order.

The same results are the same bytes, in whatever order they came. Rows are made from the journal a thousand at a time,
so that a sweep of any size fits into memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pagesim import __version__
from pagesim.sim.errors import UsageError
from pagesim.sim.files import atomic
from pagesim.sim.jsontext import canonical
from pagesim.sim.sweep.columns import TRACE, figure_columns
from pagesim.sim.sweep.journal import FILE_NAME as JOURNAL
from pagesim.sim.sweep.journal import Journal
from pagesim.sim.sweep.plan import Plan, Variant
from pagesim.sim.sweep.point import Point

FILE_NAME = "results.parquet"
ROWS_AT_ONCE = 1000
NAMES = {"requests": "num_requests"}  # of columns, of options whose own name a figure has
RESOLVED = ("pool_tokens",)  # options that the columns of the pool stand for, said or not
KEYS: dict[str, type] = {"variant": int, "seed": int, "allocator": str}
POOL: dict[str, type] = {
    "pool_tokens": int, "pool_num_blocks": int, "pool_block_size": int, "bytes_per_token": int, "mean_tokens": float,
}  # fmt: skip
TYPES: dict[type, pa.DataType] = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


def rows(plan: Plan, journal: Journal) -> Iterator[dict[str, Any]]:
    """Every row of a plan whose points are all in the journal."""
    points = plan.points()
    for variant in plan.variants:
        said = {name: _plain(variant.options[option]) for name, option in option_columns(variant.options).items()}
        if variant.config is None:
            yield {"variant": variant.number, **said, "pagesim": __version__, "error": variant.error}
            continue
        head = said | _configured(variant)
        for point in islice(points, len(plan.seeds)):
            yield from _of_point(head | {"variant": variant.number, "seed": point.config.seed}, point, journal)


def _of_point(head: Mapping[str, Any], point: Point, journal: Journal) -> Iterator[dict[str, Any]]:
    record = journal.read(point.key)
    for name in point.config.allocators:
        row = {**head, "allocator": name, **(record["trace"] or {}), "error": record["errors"].get(name)}
        yield row | record["rows"].get(name, {})


def _configured(variant: Variant) -> dict[str, Any]:
    """What the variant came to: its pool, and its whole configuration without the seed."""
    assert variant.config is not None
    pool, whole = variant.config.pool, variant.config.as_json()
    del whole["seed"]
    return {
        "pool_tokens": pool.tokens, "pool_num_blocks": pool.num_blocks, "pool_block_size": pool.block_size,
        "bytes_per_token": pool.bytes_per_token, "mean_tokens": variant.mean_tokens, "config": canonical(whole),
        "files": canonical(dict(variant.files)), "pagesim": __version__,
    }  # fmt: skip


def columns(plan: Plan, options: Mapping[str, type]) -> dict[str, type]:
    """Name and type of every column. `options`: those of `run`. Figures are of the disciplines that the plan has."""
    waiting = sorted({variant.config.queue is not None for variant in plan.variants if variant.config is not None})
    figures: dict[str, type] = {}
    for discipline in waiting:
        figures |= figure_columns(discipline)
    said = {name: options[option] for name, option in option_columns(options).items()}
    origin: dict[str, type] = {"config": str, "files": str, "pagesim": str, "error": str}
    return KEYS | said | POOL | TRACE | figures | origin


def option_columns(options: Iterable[str]) -> dict[str, str]:
    """Column to option of `run`."""
    return {NAMES.get(option, option): option for option in options if option not in RESOLVED}


def write_dataset(path: Path, every: Iterator[dict[str, Any]], kinds: Mapping[str, type]) -> int:
    """Write all rows, atomically; how many there are. Raises UsageError if `path` cannot be written, or a row
    has what no sweep puts there.
    """
    schema = pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()])
    count = 0
    with atomic(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        while some := list(islice(every, ROWS_AT_ONCE)):
            writer.write_table(_table(some, schema))
            count += len(some)
    return count


def _table(some: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    unknown = {name for row in some for name in row} - set(schema.names)
    if unknown:
        raise UsageError(f"{JOURNAL}: unknown figures {', '.join(sorted(unknown))}; accepted: as a sweep wrote it")
    return pa.table([_column(some, schema.field(name)) for name in schema.names], schema=schema)


def _column(some: Sequence[Mapping[str, Any]], field: pa.Field[Any]) -> Any:
    try:
        return pa.array([row.get(field.name) for row in some], field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(f"{JOURNAL}: {field.name}: {error}; accepted: as a sweep wrote it") from error


def read_dataset(path: Path, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Some columns of all rows, or all columns."""
    table: list[dict[str, Any]] = pq.read_table(path, columns=None if names is None else list(names)).to_pylist()
    return table


def config_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that a row is the result of, as `run --json` prints it, but for the seed."""
    whole: dict[str, Any] = json.loads(row["config"])
    return whole


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
