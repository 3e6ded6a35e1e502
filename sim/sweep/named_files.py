"""The files that a configuration names, and what is in them: a result is of the contents, not of the names."""

from __future__ import annotations

import hashlib
import importlib.util
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
        if _known_hash(name) != wanted:
            raise UsageError(
                f"{name}: not the file that the sweep was planned with; accepted: the same on every worker"
            )


def file_hash(name: str) -> str:
    """SHA-256 of its bytes. Raises UsageError if it cannot be read."""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror})") from error


_known_hash = lru_cache(maxsize=64)(file_hash)  # once in each worker


def _module_file(allocator: str) -> str:
    allocator_class(allocator)  # or it says what is wrong with the name, and puts the working folder on the path
    spec = importlib.util.find_spec(allocator.partition(":")[0])
    return "" if spec is None or spec.origin is None else spec.origin
