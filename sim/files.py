"""Files are written whole or not at all: to a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pagesim.sim.errors import UsageError


def check_writable(path: Path) -> None:
    """Raise UsageError if a file cannot be made at `path`: it is a folder, or its folder is missing or closed to us.

    What is there and is no plain file is refused too: a file takes its place, it is not written into; so a device, a
    pipe or a link, /dev/null itself, would be gone.
    """
    try:
        _check_place(path)
    except (OSError, ValueError) as error:  # a name that is too long, or has a null in it
        raise UsageError(f"{path}: no file can have that name ({_reason(error)})") from error


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; accepted: the name of a file")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path}: is a link, a device or a pipe; accepted: a new name, or that of a plain file")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: the folder {path.parent} may not be written to")


def check_apart(*paths: Path | None) -> None:
    """Raise UsageError if two of what is read or written are one file: the second would take the place of the first."""
    seen: set[str] = set()
    for path in paths:
        if path is not None:
            place = os.path.realpath(path)
            if place in seen:
                raise UsageError(f"{path}: is named twice, to be read or written; accepted: a file for each")
            seen.add(place)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, on failure it is removed.

    Raises UsageError if `path` cannot be written.
    """
    check_writable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically. Raises UsageError as `atomic` does."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")  # a name may be no text
