"""The files that a configuration names, and what is in them: a result is of the contents, not of the names."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pagesim.sim.allocators import allocator_class, builtin_names
from pagesim.sim.config import RunConfig
from pagesim.sim.errors import UsageError


def named_files(config: RunConfig) -> dict[str, str]:
    """The hash of each file by its name: of traces, lengths, windows, profiles, models, and your own allocators.

    Raises UsageError if one cannot be read.
    """
    drawn, step_time = config.workload, "" if config.queue is None else config.queue.step_time
    texts = [drawn.lengths, drawn.arrivals, drawn.prompt_lengths or "", drawn.output_lengths or "", step_time]
    names = {text.partition(":")[2] for text in texts} | set(step_time.split(":")) | {step_time, config.trace or ""}
    found = {name for name in names if name and Path(name).is_file()}
    found |= {_module_file(name) for name in config.allocators if name not in builtin_names()}
    return {name: file_hash(name) for name in sorted(found - {""})}


def check_files(files: Mapping[str, str]) -> None:
    """Raise UsageError if a file is not, on this machine, what it was where the sweep was planned."""
    for name, wanted in files.items():
        if _known_hash(name, stamp(name)) != wanted:
            raise UsageError(
                f"{name}: not the file that the sweep was planned with; accepted: the same on every worker"
            )
        if _met.setdefault(name, wanted) != wanted:
            _import_again(name)
            _met[name] = wanted


def file_hash(name: str) -> str:
    """SHA-256 of its bytes. Raises UsageError if it cannot be read."""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror})") from error


def stamp(name: str) -> tuple[int, int, int]:
    """What changes with a file's contents, and is quick to look at: a worker may live longer than what it has read.

    Raises UsageError if there is no such file.
    """
    try:
        status = Path(name).stat()
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror})") from error
    return status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=64)
def _known_hash(name: str, stamp: tuple[int, int, int]) -> str:
    return file_hash(name)  # known for as long as the stamp is the same


_met: dict[str, str] = {}  # the hash of each file when this process last checked it


def _import_again(name: str) -> None:
    """An allocator's module that has changed since this process imported it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == name:
            importlib.reload(module)


def _module_file(allocator: str) -> str:
    allocator_class(allocator)  # or it says what is wrong with the name, and puts the working folder on the path
    spec = importlib.util.find_spec(allocator.partition(":")[0])
    return "" if spec is None or spec.origin is None else spec.origin
