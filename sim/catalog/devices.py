"""Cards by name: total memory as the driver reports it, bandwidth, arithmetic rate, and the source of each figure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pagesim.sim.catalog.names import matching, near, normal
from pagesim.sim.errors import GeometryError


@dataclass(frozen=True, slots=True)
class Device:
    """One card. `memory_bytes` is what CUDA or HIP gives as its total, which is less than the box says.

    `memory_kind` and `speed_kind`: "measured" (in this project's sources), "reported" (by drivers, in public logs, and
    rounded there) or "datasheet". `fp16_tensor_flops`: dense, with FP32 accumulation where the two differ.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    memory_bytes: int
    memory_kind: str
    memory_source: str
    bandwidth_bytes_per_s: int
    fp16_tensor_flops: int
    compute_capability: str
    speed_kind: str
    speed_source: str


@cache
def _devices() -> dict[str, Device]:
    text = files("pagesim.sim.catalog").joinpath("devices.json").read_text(encoding="utf-8")
    entries = json.loads(text)["devices"]
    return {entry["name"]: Device(**{**entry, "aliases": tuple(entry["aliases"])}) for entry in entries}


def device_names() -> list[str]:
    """The cards in the list, in its order."""
    return list(_devices())


def find_device(name: str) -> Device:
    """The card that `name` means, forgivingly spelled. Raises GeometryError that lists near matches."""
    spellings: dict[str, str] = {}
    for device in _devices().values():
        for spelling in (device.name, device.title, *device.aliases):
            spellings.setdefault(normal(spelling), device.name)
    known = matching(name, spellings)
    if known is None:
        close = near(name, spellings) or device_names()
        raise GeometryError(f"unknown device {name!r}; near matches: {', '.join(close)}; any other: give --kv-bytes")
    return _devices()[known]
