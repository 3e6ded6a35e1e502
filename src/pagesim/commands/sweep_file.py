"""A design in a TOML file: the options of `pagesim sweep` by name, each with one value, a text or a list of values."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pagesim.sim.errors import UsageError


def read_design(path: Path, accepted: Collection[str]) -> dict[str, Any]:
    """What it says, by parameter: a list of one text, as on the command line; of an array, a tuple of texts.

    Raises UsageError if it cannot be read, or says something else than `accepted`.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error})") from error
    said: dict[str, Any] = {}
    for key, value in document.items():
        name = key.replace("-", "_")
        if name not in accepted:
            raise UsageError(f"{path}: '{key}'; accepted: options of `pagesim sweep`, like load or block-size")
        if name in said:
            raise UsageError(f"{path}: '{key}' is there twice, with - and with _; accepted: once")
        said[name] = _texts(value, f"{path}: '{key}'")
    return said


def _texts(value: Any, where: str) -> list[str] | tuple[str, ...]:
    if isinstance(value, list):
        if not value:
            raise UsageError(f"{where} is empty; accepted: one value or more")
        return tuple(_text(each, where) for each in value)
    return [_text(value, where)]


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{where}: {value!r}; accepted: a number, a text, true or false, or an array of those")
