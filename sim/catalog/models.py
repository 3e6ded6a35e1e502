"""Models by name: the built-in list in models.json, or any config.json.

The list holds the fields of each published config.json that bear on memory, so that one reader serves both.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pagesim.sim.catalog.configfields import config_fields
from pagesim.sim.catalog.modelconfig import DTYPE_BYTES, Model, model_of, read_model
from pagesim.sim.catalog.names import matching, near, normal
from pagesim.sim.errors import GeometryError


@cache
def _entries() -> dict[str, dict[str, Any]]:
    text = files("pagesim.sim.catalog").joinpath("models.json").read_text(encoding="utf-8")
    return {entry["name"]: entry for entry in json.loads(text)["models"]}


@cache
def _spellings() -> dict[str, str]:
    spellings: dict[str, str] = {}
    for name, entry in _entries().items():
        for spelling in (name, entry["hub"], *entry["aliases"]):
            spellings.setdefault(normal(spelling), name)
    return spellings


def model_names() -> list[str]:
    """The built-in models, in the list's order."""
    return list(_entries())


def find_model(name: str) -> Model:
    """The model that `name` means: a path to a config.json or to its folder, or a built-in name, forgivingly spelled.

    Raises GeometryError: an unknown name lists near matches; a file is refused as `read_model` says.
    """
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        return read_model(path)
    known = matching(name, _spellings())
    if known is None:
        close = near(name, _spellings()) or model_names()
        raise GeometryError(
            f"unknown model {name!r}; near matches: {', '.join(close)}; any other: the path of its config.json"
        )
    return _built_in(known)


def _built_in(name: str) -> Model:
    entry = _entries()[name]
    weights = entry.get("weights_bytes")
    if weights is None and "weights_dtype" in entry:
        weights = entry["parameters"] * DTYPE_BYTES[entry["weights_dtype"]]
    return model_of(config_fields(entry["config"], name), name, entry["parameters"], weights)
