"""Allocators by name: the built-in ones, and anyone's own by `module:Class`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import get_args

from pagesim.sim.allocators.base import Account, Allocator, AnyAllocator, Extent, OracleAllocator, Pool
from pagesim.sim.allocators.buddy import Buddy
from pagesim.sim.allocators.exact_fit import ExactFit, Fit
from pagesim.sim.allocators.paged import Paged
from pagesim.sim.allocators.reservation import Reservation
from pagesim.sim.errors import UsageError

__all__ = [
    "Account", "Allocator", "AnyAllocator", "Buddy", "ExactFit", "Extent", "OracleAllocator", "Paged", "Pool",
    "Reservation", "allocator_class", "builtin_names", "described", "in_order",
]  # fmt: skip

Make = Callable[[Pool], AnyAllocator]


def _exact_fit(fit: Fit, compact: bool) -> Make:
    return lambda pool: ExactFit(pool, fit, compact)


_FITS: dict[str, Make] = {
    f"exact-fit:{fit}{':compact' if compact else ''}": _exact_fit(fit, compact)
    for fit in get_args(Fit)
    for compact in (False, True)
}
_BUILTIN: dict[str, Make] = {"reservation": Reservation, "exact-fit": ExactFit, **_FITS, "buddy": Buddy, "paged": Paged}


def builtin_names() -> list[str]:
    """Every built-in name."""
    return list(_BUILTIN)


DESCRIPTIONS = {
    "reservation": "reserves the longest sequence permitted for every request, in one run, as long as it stays",
    "exact-fit": "is told the final length, which no real server can know, and gives one run of just that",
    "buddy": "is told the final length too, and gives one run of the next power of two",
    "paged": "gives blocks from anywhere in the pool, as many as the tokens fill",
}
FITS = {
    "first": "from the lowest free run that is large enough",
    "best": "from the smallest free run that is large enough",
    "next": "from the first free run that is large enough after the last one taken",
    "worst": "from the largest free run",
    "compact": "moving all others together when no run is large enough",
}


def described(names: Iterable[str]) -> dict[str, str]:
    """What each does, in words; "your own" for one that is not built in."""
    words = {}
    for name in names:
        kind, *options = name.split(":")
        if name in _BUILTIN:
            options = options or (["first"] if kind == "exact-fit" else [])
            words[name] = ", ".join([DESCRIPTIONS[kind], *(FITS[option] for option in options)])
        else:
            words[name] = "your own"
    return words


def in_order(names: Iterable[str]) -> list[str]:
    """Built-in names in the order of `builtin_names`, then the others by name: results do not depend on a user's."""
    builtin = builtin_names()
    return sorted(names, key=lambda name: (builtin.index(name) if name in builtin else len(builtin), name))


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
    made = getattr(_module(module_name, name), class_name, None)
    if made is None:
        raise UsageError(f"allocator '{name}': module '{module_name}' has no {class_name}")
    if not (isinstance(made, type) and issubclass(made, (Allocator, OracleAllocator))):
        raise UsageError(f"allocator '{name}': not a subclass of pagesim.sim.allocators.Allocator or OracleAllocator")
    if inspect.isabstract(made):
        missing = ", ".join(sorted(made.__abstractmethods__))
        raise UsageError(f"allocator '{name}': an abstract class; accepted: one that defines {missing}")
    return made


def _module(module_name: str, name: str) -> ModuleType:
    """Import it, from the working folder if it is nowhere else: a console script does not look there by itself."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # anything can go wrong in someone's module
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"allocator '{name}': module '{module_name}' cannot be imported ({why})") from error
