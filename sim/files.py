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
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; accepted: the name of a file")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path}: is a link, a device or a pipe; accepted: a new name, or that of a plain file")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: the folder {path.parent} may not be written to")


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
        temporary.write_text(text, encoding="utf-8", newline="\n")
