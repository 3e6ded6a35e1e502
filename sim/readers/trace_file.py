"""A trace file as bytes: plain or gzip, opened once to look at its first line and once to be read.

Recognises by content, not by name, and says in one line what is wrong with a file that cannot be read at all.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagesim.sim.errors import TraceError

OnProgress = Callable[[int], None]

MAX_LINE_BYTES = 16 * 2**20  # the longest prompts, at 16 tokens an id, are lines of about a tenth of a megabyte
BOM = b"\xef\xbb\xbf"
BROKEN = "\x1a"  # ASCII's own character for what could not be read
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file: `stream` gives the text, unpacked; `raw` stands where the reading has come to in the file."""

    stream: Any
    raw: Any


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a file, unpacking gzip. Raises TraceError if it is missing, a folder, unreadable or a broken gzip."""
    if path.is_dir():
        raise TraceError(f"{path}: is a folder; accepted: a file")
    if not path.exists():
        raise TraceError(f"{path}: no such file")
    if not path.is_file():
        raise TraceError(f"{path}: is not a regular file; accepted: a file that can be read twice")
    try:
        with pa.OSFile(str(path), "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = pa.CompressedInputStream(raw, "gzip") if packed else raw
            yield Opened(stream, raw)
    except OSError as error:
        raise TraceError(f"{path}: {_what(error)}") from error


def _what(error: OSError) -> str:
    text = str(error).splitlines()[0]
    if "Truncated compressed" in text:
        return "the gzip data end too early; accepted: a whole file"
    if "zlib" in text:
        return f"the gzip data are broken ({text})"
    return f"cannot be read ({shown(error.strerror or text, 200)})"


class CleanText:
    """A stream of UTF-8 text in which every byte that is none has become `BROKEN`, one for one.

    Arrow's reader of CSV can neither name nor count a row with such bytes; with this it treats it like any other.
    """

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._pending = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none only at the end. A character cut by the end of a block waits for the next."""
        while True:
            block = bytes(self._stream.read(max(1, size - 4)))
            if block.isascii() and block and not self._pending:
                return block
            text = _NOT_UTF8.sub(BROKEN, self._decoder.decode(block, final=not block))
            self._pending = bool(self._decoder.getstate()[0])
            if text or not block:
                return text.encode()


def first_line(path: Path) -> bytes:
    """The first line that is not blank, without its end and without a byte order mark.

    Raises TraceError as `opened` does, and on an empty file, one that is not UTF-8 text, or an endless line.
    """
    with opened(path) as file:
        head = _head(file.stream)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TraceError(f"{path}: is UTF-16 text; accepted: UTF-8")
    line = head.split(b"\n", 1)[0].rstrip(b"\r \t")
    if not line:
        raise TraceError(f"{path}: has no rows; accepted: a trace of at least one request")
    if len(line) >= MAX_LINE_BYTES:
        raise TraceError(f"{path}: the first line is longer than {MAX_LINE_BYTES:,} bytes, so this is no trace")
    if b"\0" in line or not _is_utf8(line):
        raise TraceError(f"{path}: is not text; accepted: a CSV, JSON Lines or Parquet trace")
    return line


def _head(stream: Any) -> bytes:
    """The file up to the block that ends its first line which is not blank, or up to the longest line accepted."""
    blocks: list[bytes] = []
    while sum(map(len, blocks)) < MAX_LINE_BYTES and (block := stream.read(2**16)):
        block = block if blocks else block.removeprefix(BOM).lstrip(b"\r\n \t")
        if block:
            blocks.append(block)
        if b"\n" in block:
            break
    return b"".join(blocks)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_parquet(path: Path) -> bool:
    """Whether the file begins as a Parquet file does."""
    with opened(path) as file:
        return bool(file.raw.read(4) == b"PAR1")


def reason(error: Exception) -> str:
    """What a library says is wrong, as part of a one-line message."""
    return shown((str(error).splitlines() or [type(error).__name__])[0], 200)


def shown(value: Any, width: int = 60) -> str:
    """A value from a file as part of a one-line message: cut to `width`, with no control characters."""
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= width else text[:width] + "..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
