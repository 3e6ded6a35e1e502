"""Allocators by name: the built-in ones, and anyone's own by `module:Class`."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from pagesim.sim.allocators.base import Account, Allocator, AnyAllocator, Extent, OracleAllocator, Pool
from pagesim.sim.allocators.buddy import Buddy
from pagesim.sim.allocators.exact_fit import ExactFit, Fit
from pagesim.sim.allocators.paged import Paged
from pagesim.sim.allocators.reservation import Reservation
from pagesim.sim.errors import UsageError

__all__ = ["Account", "Allocator", "AnyAllocator", "Buddy", "ExactFit", "Extent", "OracleAllocator", "Paged", "Pool",
           "Reservation", "allocator_class", "builtin_names"]  # fmt: skip

Make = Callable[[Pool], AnyAllocator]


def _exact_fit(fit: Fit, compact: bool) -> Make:
    return lambda pool: ExactFit(pool, fit, compact)


_BUILTIN: dict[str, Make] = {"reservation": Reservation, "exact-fit": ExactFit, "buddy": Buddy, "paged": Paged}
for _fit in ("first", "best", "next", "worst"):
    _BUILTIN[f"exact-fit:{_fit}"] = _exact_fit(_fit, compact=False)
    _BUILTIN[f"exact-fit:{_fit}:compact"] = _exact_fit(_fit, compact=True)


def builtin_names() -> list[str]:
    """Every built-in name."""
    return list(_BUILTIN)


def allocator_class(name: str) -> Make:
    """What makes the allocator called `name` out of a Pool.

    `name` is a built-in one, or `module:Class` for a subclass of Allocator or OracleAllocator anywhere on the import
    path or in the working folder. Raises UsageError if there is no such thing.
    """
    if name in _BUILTIN:
        return _BUILTIN[name]
    module_name, colon, class_name = name.partition(":")
    if not colon or module_name == "exact-fit":
        raise UsageError(f"allocator '{name}' is unknown; accepted: {', '.join(_BUILTIN)}, or my_module:MyAllocator")
    try:
        made = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise UsageError(f"allocator '{name}': module '{module_name}' cannot be imported ({error})") from error
    if not (isinstance(made, type) and issubclass(made, (Allocator, OracleAllocator))):
        raise UsageError(f"allocator '{name}': not a subclass of pagesim.sim.allocators.Allocator or OracleAllocator")
    return made
