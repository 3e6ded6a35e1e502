"""Where the rows of any trace file are judged and gathered: bad rows named, the rest kept as growing columns.

One rule for all formats. Columns grow by chunks and are joined once, so ten million rows need little more memory than
the trace itself. What depends on all rows together (order, duplicates, the first arrival) is in `tidying`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.errors import TraceError
from pagesim.sim.readers.row_batch import RowBatch, Shape
from pagesim.sim.readers.trace_file import shown
from pagesim.sim.reading import ReadOptions, ZeroOutput
from pagesim.sim.trace import MAX_TOKENS, HashIds

A_TIME = "a finite time, 0 or later"
A_LENGTH = f"a whole number of tokens from 1 to {MAX_TOKENS}"
AN_OUTPUT = f"{A_LENGTH} (--zero-output drop or one also takes 0)"
A_COUNT = "a whole number, 1 or more"
A_PRIORITY = "a whole number"

Mask = NDArray[np.bool_]


class Intake:
    """Takes batches of one file; `columns` then hands out what was kept, one column at a time."""

    def __init__(self, path: Path, shape: Shape, options: ReadOptions) -> None:
        self.path, self.shape, self.options = path, shape, options
        self.zero_output: ZeroOutput = options.zero_output or shape.zero_output
        self.hash_block_tokens = options.hash_block_tokens or shape.hash_block_tokens
        self.rows_read = self.rows_kept = self.blank_lines = self.zero_output_rows = self.bad_rows = 0
        self.first_bad_row: str | None = None
        self.limited = False
        self._last_arrival: NDArray[Any] | None = None
        self._chunks: dict[str, list[NDArray[Any]]] = {}

    def take(self, batch: RowBatch) -> bool:
        """Judge and keep a batch; False once the limit is reached. Raises TraceError at the first bad row, if asked."""
        broken = self._broken(batch)
        bad: Mask = np.logical_or.reduce([mask for mask, _, _ in broken])
        zero = ~bad & (batch.output_tokens == 0) if self.zero_output == "drop" else np.zeros(len(batch), bool)
        rows = np.flatnonzero(~bad & ~zero)
        end, lost = len(batch), batch.lost
        room = None if self.options.limit is None else self.options.limit - self.rows_kept
        if room is not None and len(rows) >= room:
            self.limited, rows = True, rows[:room]
            end = int(rows[-1]) + 1
            lost = tuple(lines for lines in lost if lines[0] < batch.lines[rows[-1]])
        self._report(batch, bad[:end], lost, broken)
        if self.options.unsorted == "stop":
            self._check_order(batch, rows)
        self.rows_read += end + len(lost)
        self.blank_lines += batch.blank_lines
        self.zero_output_rows += int(zero[:end].sum())
        self._keep(batch, rows)
        return not self.limited

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """(name, whole column) for each column, giving up its chunks as it goes. Raises TraceError without rows."""
        if self.rows_kept == 0:
            raise TraceError(f"{self.path}: {self._nothing_left()}; accepted: a trace of at least one request")
        for name in list(self._chunks):
            yield name, np.concatenate(self._chunks.pop(name))

    def _nothing_left(self) -> str:
        if self.rows_read == 0:
            return "has no rows"
        why = f"bad: {self.bad_rows:,}, without an output token: {self.zero_output_rows:,}"
        return f"none of its {self.rows_read:,} rows can be used ({why})"

    def _keep(self, batch: RowBatch, rows: NDArray[np.int64]) -> None:
        self.rows_kept += len(rows)
        output = batch.output_tokens[rows]
        if self.zero_output == "one":
            self.zero_output_rows += int((output == 0).sum())
            output = np.maximum(output, 1)
        self._add("arrival", batch.arrival[rows])
        self._add("prompt_tokens", batch.prompt_tokens[rows].astype(np.int64))
        self._add("output_tokens", output.astype(np.int64))
        for name, column in batch.whole.items():
            self._add(name, column[rows])
        if batch.hash_ids is not None:
            ids = batch.hash_ids.take(rows)
            self._add("hash_values", ids.values)
            self._add("hash_counts", np.diff(ids.offsets))

    def _add(self, name: str, column: NDArray[Any]) -> None:
        self._chunks.setdefault(name, []).append(column)

    def _report(
        self, batch: RowBatch, bad: Mask, lost: tuple[tuple[int, str], ...], broken: list[tuple[Mask, str, str]]
    ) -> None:
        """Count what is bad and name the first; raises TraceError if that stops the reading."""
        candidates = list(lost[:1])
        if bad.any():
            row = int(np.argmax(bad))
            message = batch.problems.get(row) or _first_message(batch, row, broken, self.shape)
            candidates.append((int(batch.lines[row]), message))
        if not candidates:
            return
        line, message = min(candidates)
        if self.options.on_bad_row == "stop":
            raise TraceError(f"{self.path}, {self.shape.where} {line}: {message}")
        self.bad_rows += int(bad.sum()) + len(lost)
        self.first_bad_row = self.first_bad_row or f"{self.shape.where} {line}: {message}"

    def _broken(self, batch: RowBatch) -> list[tuple[Mask, str, str]]:
        """(rows that break a rule, our name of the column, what would be accepted), in the order they are told."""
        unread = np.zeros(len(batch), bool)
        unread[list(batch.problems)] = True
        least_output = 1 if self.zero_output == "stop" else 0
        rules = [
            (unread, "", ""),
            (~(np.isfinite(batch.arrival) & (batch.arrival >= 0)), "arrival", A_TIME),
            (~_is_length(batch.prompt_tokens, 1), "prompt_tokens", A_LENGTH),
            (~_is_length(batch.output_tokens, least_output), "output_tokens", AN_OUTPUT if least_output else A_LENGTH),
        ]
        if "n" in batch.whole:
            rules.append((batch.whole["n"] < 1, "n", A_COUNT))
        if batch.hash_ids is not None and self.hash_block_tokens is not None:
            prompt = np.where(rules[2][0], 0, batch.prompt_tokens)
            wanted = np.ceil(prompt / self.hash_block_tokens)
            rules.append((np.diff(batch.hash_ids.offsets) != wanted, "hash_ids", str(self.hash_block_tokens)))
        return rules

    def _check_order(self, batch: RowBatch, rows: NDArray[np.int64]) -> None:
        arrival = batch.arrival[rows]
        early = np.flatnonzero(
            np.diff(arrival, prepend=arrival[:1] if self._last_arrival is None else self._last_arrival) < 0
        )
        if len(early):
            row = int(rows[early[0]])
            raise TraceError(
                f"{self.path}, {self.shape.where} {batch.lines[row]}: {self.shape.fields['arrival']} is earlier than "
                "in the row before; accepted: rows in order of arrival (or --unsorted sort)"
            )
        if len(rows):
            self._last_arrival = arrival[-1:]


def _is_length(column: NDArray[np.float64], least: int) -> Mask:
    result: Mask = (column >= least) & (column <= MAX_TOKENS) & (np.floor(column) == column)
    return result


def _first_message(batch: RowBatch, row: int, broken: list[tuple[Mask, str, str]], shape: Shape) -> str:
    name, accepted = next((name, accepted) for mask, name, accepted in broken if mask[row])
    if name == "hash_ids" and batch.hash_ids is not None:
        return _hash_message(batch.hash_ids, row, int(batch.prompt_tokens[row]), int(accepted), shape)
    column = batch.whole[name] if name in batch.whole else getattr(batch, name)
    return f"{shape.fields[name]} is {plain(float(column[row]))}; accepted: {accepted}"


def _hash_message(ids: HashIds, row: int, prompt: int, block: int, shape: Shape) -> str:
    count = len(ids[row])
    message = (
        f"{shape.fields['hash_ids']} has {count} ids; accepted: {-(-prompt // block)}, one for every {block} of the "
        f"{prompt} tokens in {shape.fields['prompt_tokens']}"
    )
    fits = next((size for size in (16, 32, 64, 128, 256, 512, 1024) if -(-prompt // size) == count), None)
    return message + (f" (--hash-block-tokens {fits} would fit)" if fits else "")


def plain(value: float) -> str:
    """A number as its owner would have written it: without a fraction where it has none."""
    return str(int(value)) if np.isfinite(value) and value == int(value) and abs(value) < 1e18 else shown(f"{value!r}")
