"""Recordings as a part of a page: compact JSON, and the markup and scripts that play it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from pagesim.sim.poolmap.recording import Recording
from pagesim.sim.poolmap.window import Window

MOST_BYTES = 800_000  # of the data: the page stays under 6 MB beside Plotly
FEWEST_FRAMES = 20


@dataclass(frozen=True, slots=True)
class PoolMap:
    """`recordings` of the allocators inside `window`, and, by name, why others have none. `of_many`: replications, of
    which the first is shown. `bytes_per_token` None: not known."""

    recordings: Sequence[Recording]
    missing: Mapping[str, str]
    window: Window
    of_many: int
    block_size: int
    bytes_per_token: int | None


def fragment(pool_map: PoolMap, most_bytes: int = MOST_BYTES) -> Markup:
    """The section of a page. What is more than `most_bytes` of data is cut at its end, or left out, and it says so."""
    document, frames = _fitting(pool_map, most_bytes)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(packaged("map.html"))
    return Markup(
        template.render(
            about=about(pool_map, frames),
            missing=pool_map.missing,
            data=None if document is None else Markup(document),
            style=Markup(packaged("map.css")),
            scripts=[Markup(packaged(name)) for name in ("pool.js", "draw.js", "map.js", "table.js")],
        )
    )


def about(pool_map: PoolMap, frames: list[float]) -> str:
    """Which moments are shown, in words."""
    window, many = pool_map.window, pool_map.of_many
    if not frames_of(pool_map.recordings):
        return "There is no map of the pool: nothing came into it, and nothing was refused for want of room."
    if not frames:
        return "The pool has too many pieces to be carried in a page: there is no map of it. Accepted: a smaller pool."
    which = f" of the first of {many} replications" if many > 1 else ""
    if window.whole and frames[-1] == window.to_s:
        return f"All {len(frames):,} moments{which} at which anything happened."
    cut = "" if frames[-1] == window.to_s else " More would not fit into the page."
    return (
        f"{len(frames):,} moments{which}, from {frames[0]:.4g} s to {frames[-1]:.4g} s, {window.around} "
        f"(--map-from and --map-frames choose others).{cut}"
    )


def document(pool_map: PoolMap, frames: list[float]) -> str:
    """The JSON that the scripts play, up to the last of `frames`; safe inside a script."""
    whole = {
        "frames": frames,
        "block_size": pool_map.block_size,
        "bytes_per_token": pool_map.bytes_per_token,
        "allocators": [_allocator(recording, frames[-1]) for recording in pool_map.recordings],
    }
    return json.dumps(whole, separators=(",", ":")).replace("<", "\\u003c")


def frames_of(recordings: Sequence[Recording]) -> list[float]:
    """The moments of all, each once."""
    return sorted({moment.time_s for recording in recordings for moment in recording.moments if moment.time_s >= 0})


def packaged(name: str) -> str:
    """The text of a file beside this one."""
    return files("pagesim.sim.poolmap").joinpath(name).read_text(encoding="utf-8")


def _fitting(pool_map: PoolMap, most_bytes: int) -> tuple[str | None, list[float]]:
    frames = frames_of(pool_map.recordings)
    while frames:
        text = document(pool_map, frames)
        if len(text) <= most_bytes:
            return text, frames
        if len(frames) <= FEWEST_FRAMES:
            break
        frames = frames[: len(frames) // 2]
    return None, []


def _allocator(recording: Recording, last_s: float) -> dict[str, Any]:
    """Owners that are named, moments as [time, step, events], an event as [kind, owner or null, pieces, numbers ...];
    the pieces of all, one after the other, as base64 of little-endian integers: a block each, or start and length."""
    runs, number, values = recording.unit == 1, dict[int, int](), list[int]()
    moments = []
    for moment in recording.moments:
        if moment.time_s > last_s:
            break
        events = []
        for event in moment.events:
            owner = None if event.owner is None else number.setdefault(event.owner, len(number))
            events.append([event.kind.value, owner, len(event.pieces), *event.numbers])
            for first, units in event.pieces:
                values += (first, units) if runs else (first,)
        moments.append([moment.time_s, moment.step, events])
    short = max(values, default=0) < 2**16
    owners = [recording.owners[owner] for owner in number]
    return {
        "name": recording.name,
        "capacity": recording.capacity,
        "unit": recording.unit,
        "runs": runs,
        "grows": recording.grows,
        "plain": recording.plain,
        "owners": [[o.row, o.prompt, o.final, *((o.from_s, o.stay_s) if o.stay_s else ())] for o in owners],
        "short": short,
        "pieces": base64.b64encode(np.array(values, "<u2" if short else "<u4").tobytes()).decode(),
        "moments": moments,
    }
