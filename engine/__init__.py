"""A small real inference engine: scheduler, three cache managers over the same kernels, models.

It imports nothing of ours but `kernels`. Importing it loads neither torch nor a model: the names below are loaded when
they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagesim.engine.config import EngineConfig
    from pagesim.engine.engine import Engine
    from pagesim.engine.sampling import SamplingParams

__all__ = ["Engine", "EngineConfig", "SamplingParams"]

_HOMES = {"Engine": "engine", "EngineConfig": "config", "SamplingParams": "sampling"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
