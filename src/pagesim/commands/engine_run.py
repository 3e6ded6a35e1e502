"""An engine for the length of a command, with its step log if one is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagesim.engine.config import EngineConfig
    from pagesim.engine.engine import Engine


@contextmanager
def engine_with_steps(config: EngineConfig, steps: str | None) -> Iterator[Engine]:
    """Raises EngineError, or UsageError if the log cannot be written.

    Steps are appended a line each to FILE.partial, which becomes FILE when the command ends without an error.
    """
    from pagesim.engine.engine import Engine
    from pagesim.engine.step_log import step_log
    from pagesim.sim.files import check_writable

    if steps is None:
        yield Engine(config)
        return
    path = Path(steps)
    check_writable(path)
    with step_log(path) as write:
        yield Engine(config, on_step=write)
