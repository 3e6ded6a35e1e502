"""From gathered rows to a trace: what depends on all rows together. Order, duplicates, the first arrival, jitter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.errors import TraceError
from pagesim.sim.readers.chat_roots import chat_roots
from pagesim.sim.readers.duplicates import repeats
from pagesim.sim.readers.intake import Intake
from pagesim.sim.readers.row_batch import NANOSECONDS, Names
from pagesim.sim.reading import ReadReport
from pagesim.sim.trace import HashIds, Ints, Labels, Trace


class _Table:
    """The columns on their way to a trace; each step takes some of the rows, or puts them in another order."""

    def __init__(self, intake: Intake) -> None:
        self.columns: dict[str, NDArray[Any]] = dict(intake.columns())
        self.hash_ids: HashIds | None = None
        if "hash_counts" in self.columns:
            counts = self.columns.pop("hash_counts")
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            self.hash_ids = HashIds(self.columns.pop("hash_values"), offsets)

    @property
    def arrival(self) -> NDArray[Any]:
        return self.columns["arrival"]

    def take(self, rows: Ints) -> None:
        for name in list(self.columns):
            self.columns[name] = self.columns[name][rows]
        if self.hash_ids is not None:
            self.hash_ids = self.hash_ids.take(rows)

    def sort(self) -> int:
        """Put rows in order of arrival, equal ones as they stand; how many were earlier than the row before."""
        early = int((np.diff(self.arrival) < 0).sum())
        if early:
            self.take(np.argsort(self.arrival, kind="stable"))
        return early


def tidy(intake: Intake, names: Mapping[str, Names]) -> tuple[Trace, ReadReport]:
    """The trace, and what was done to the rows. `names`: those of each label column.

    Raises TraceError if no rows are left, or parents of chats go round in a circle.
    """
    options, shape, notes = intake.options, intake.shape, list(intake.shape.notes)
    table = _Table(intake)
    out_of_order = table.sort()
    repeated = repeats(table.columns, table.hash_ids)
    dropped = int(repeated.sum()) if options.duplicates == "drop" else 0
    if dropped:
        table.take(np.flatnonzero(~repeated))
    distinct = 1 + int((np.diff(table.arrival) != 0).sum())
    first = _told(table.arrival[0], shape.ticks_per_s)
    shifted = _shift(table, shape.ticks_per_s, options.start == "zero" or (options.start is None and shape.shift))
    if options.jitter_s:
        draws = np.random.default_rng(options.jitter_seed).random(len(table.arrival))
        table.columns["arrival"] = table.arrival + draws * options.jitter_s
        table.sort()
    session: Labels | None
    if "chat_id" in table.columns:
        session = _chat_sessions(table, intake.path, notes)
    else:
        session = _labels(table, names, "session", shape.declared)
    trace = Trace(
        arrival_s=table.arrival,
        prompt_tokens=table.columns["prompt_tokens"],
        output_tokens=table.columns["output_tokens"],
        hash_ids=table.hash_ids,
        hash_block_tokens=None if table.hash_ids is None else intake.hash_block_tokens,
        session=session,
        cache_salt=_labels(table, names, "cache_salt", shape.declared),
        adapter=_labels(table, names, "adapter", shape.declared),
        n=table.columns.get("n"),
        priority=table.columns.get("priority"),
    )
    report = ReadReport(
        format=shape.name,
        rows_read=intake.rows_read,
        requests=len(trace),
        blank_lines=intake.blank_lines,
        bad_rows_skipped=intake.bad_rows,
        first_bad_row=intake.first_bad_row,
        zero_output_rows=intake.zero_output_rows,
        zero_output=intake.zero_output,
        out_of_order_rows=out_of_order,
        duplicate_rows=int(repeated.sum()),
        duplicates_dropped=dropped,
        distinct_arrivals=distinct,
        jitter_s=options.jitter_s,
        shifted_by_s=shifted,
        first_arrival=first,
        limit=options.limit if intake.limited else None,
        left_out=shape.left_out,
        notes=tuple(notes),
    )
    return trace, report


def _told(arrival: Any, ticks_per_s: int) -> str:
    """An arrival in words: a date in UTC if the file has dates, or else seconds."""
    if ticks_per_s == NANOSECONDS:
        return f"{np.datetime64(int(arrival), 'ns')}Z"
    return f"{arrival / ticks_per_s:.12g} s"


def _shift(table: _Table, ticks_per_s: int, to_zero: bool) -> float:
    """Turn arrivals into seconds, from the first one if asked; the seconds taken off. Subtracts before it divides."""
    first = table.arrival[0]
    moved = table.arrival - first if to_zero else table.arrival
    table.columns["arrival"] = moved / ticks_per_s if ticks_per_s > 1 else moved
    return float(first / ticks_per_s) if to_zero else 0.0


def _labels(table: _Table, names: Mapping[str, Names], column: str, declared: frozenset[str]) -> Labels | None:
    if column not in table.columns:
        return None
    words, codes = names[column].all(), table.columns.pop(column)
    if words == (None,) and column not in declared:
        return None
    highest = np.maximum.accumulate(codes)
    in_order = codes[0] == 0 and (np.diff(highest) <= 1).all() and highest[-1] + 1 == len(words)
    labels = Labels(codes, words)
    return labels if in_order else labels.take(np.arange(len(codes)))


def _chat_sessions(table: _Table, path: Path, notes: list[str]) -> Labels:
    try:
        roots, orphans = chat_roots(table.columns.pop("chat_id"), table.columns.pop("parent_chat_id"))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error
    if orphans:
        notes.append(f"{orphans:,} rows follow a chat that is not in the file: that chat's id stands for the session")
    found, codes = np.unique(roots, return_inverse=True)
    labels = Labels(codes.reshape(-1).astype(np.int32), tuple(str(root) for root in found))
    return labels.take(np.arange(len(roots)))
