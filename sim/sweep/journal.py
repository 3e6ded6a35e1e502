"""The outcomes of a sweep on disk, a line of JSON for each point, in the order in which they came.

A line is written, and forced to the disk, before the next outcome is looked at. What is killed in the middle of a line
leaves a torn one behind: it is cut off when the journal is opened again, and its point is run again. Memory holds where
each line begins, not what is in it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from pagesim.sim.errors import UsageError
from pagesim.sim.jsontext import canonical

FILE_NAME = "points.jsonl"
HEAD = b'{"errors":'  # how every line begins: keys are in order


class Journal:
    """Open to be read and added to, by one process at a time. Raises UsageError if the file is not such a journal."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._lock()
        self._starts: dict[str, int] = {}
        self._failed: set[str] = set()
        for start, line in self._whole_lines():
            record = self._decoded(line, start)
            self._remember(record, start)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path) -> Iterator[Self]:
        """The journal of a folder, which is made if need be."""
        path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b")
        except OSError as error:
            raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
        with file:
            yield cls(file, path)

    def __contains__(self, key: str) -> bool:
        return key in self._starts

    def failed(self, key: str) -> bool:
        """Whether the point is there, and went wrong for one allocator or all."""
        return key in self._failed

    def add(self, key: str, outcome: dict[str, Any]) -> None:
        """Write an outcome, and see that it is on the disk. Raises UsageError if that cannot be."""
        start = self._file.seek(0, os.SEEK_END)
        record = {"key": key, **outcome}
        try:
            self._file.write(canonical(record).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"{self._path}: cannot be written ({error.strerror})") from error
        self._remember(record, start)

    def read(self, key: str) -> dict[str, Any]:
        """The last outcome that was written for a point."""
        start = self._starts[key]
        self._file.seek(start)
        return self._decoded(self._file.readline(), start)

    def _remember(self, record: dict[str, Any], start: int) -> None:
        self._starts[record["key"]] = start
        (self._failed.add if record["errors"] else self._failed.discard)(record["key"])

    def _whole_lines(self) -> Iterator[tuple[int, bytes]]:
        start = self._file.seek(0)
        for line in iter(self._file.readline, b""):
            if not line.endswith(b"\n"):
                if start == 0 and line[: len(HEAD)] != HEAD[: len(line)]:
                    raise self._foreign(start)  # nothing here is ours to cut off
                self._file.truncate(start)
                return
            yield start, line
            start += len(line)

    def _decoded(self, line: bytes, start: int) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(line)
            if _is_outcome(record):
                return record
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            pass
        raise self._foreign(start)

    def _foreign(self, start: int) -> UsageError:
        return UsageError(f"{self._path}: byte {start}: not a line of a sweep; accepted: a folder that a sweep made")

    def _lock(self) -> None:
        """Two that write at once would mix their lines. (Where the system has no such locks, nothing is checked.)"""
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{self._path}: another sweep is writing it; accepted: another --out") from error


def _is_outcome(record: dict[str, Any]) -> bool:
    """Whether it has the parts of an outcome, and something for each allocator."""
    trace, rows, errors = record["trace"], record["rows"], record["errors"]
    return (
        isinstance(record["key"], str)
        and (trace is None or isinstance(trace, dict))
        and all(isinstance(row, dict) for row in rows.values())
        and all(isinstance(error, str) for error in errors.values())
        and bool(rows or errors)
    )
