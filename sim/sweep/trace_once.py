"""The trace of a configuration, read once by each process that runs points of it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pagesim.sim.config import RunConfig
from pagesim.sim.formats import read_trace
from pagesim.sim.reading import ReadOptions
from pagesim.sim.sweep.named_files import stamp
from pagesim.sim.trace import Trace


def read_once(config: RunConfig) -> Trace | None:
    """None where requests are drawn. The last one is kept until another is asked for. Raises TraceError."""
    return None if config.trace is None else _read(config.trace, stamp(config.trace), config.reading)


@lru_cache(maxsize=1)
def _read(path: str, stamp: tuple[int, int, int], reading: ReadOptions) -> Trace:
    return read_trace(Path(path), reading)[0]
