"""Which part of a run is recorded: a number of moments around the first time that something is worth seeing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pagesim.sim.placement import ADMITTED, DROPPED, REJECTED, PlacementLog
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.trace import Floats, Trace

DEFAULT_FRAMES = 1000
BEFORE = 4  # one part in so many lies before what the window is around


@dataclass(frozen=True, slots=True)
class Window:
    """From `from_s` to `to_s`, both included. `whole`: that is all there is. `around`: why there, in words."""

    from_s: float
    to_s: float
    whole: bool
    around: str


def placement_window(
    trace: Trace, logs: Mapping[str, PlacementLog], frames: int, from_s: float | None = None
) -> Window:
    """Around the first refusal of the allocator that is the last to refuse for the first time; from the start if none
    ever does; or from `from_s` on."""
    times: list[Floats] = []
    for log in logs.values():
        times += [
            trace.arrival_s[log.outcome != REJECTED],
            log.end_s[(log.outcome == ADMITTED) | (log.outcome == DROPPED)],
            log.growths["time_s"],
        ]
    first = {
        name: float(trace.arrival_s[log.refusals["request"][0]]) for name, log in logs.items() if len(log.refusals)
    }
    last = max(first, key=lambda name: first[name]) if first else None
    around = "from the start: nobody was refused" if last is None else f"around the first refusal by {last}"
    return _window(np.unique(np.concatenate(times)), frames, from_s, first[last] if last else None, around)


def serving_window(logs: Mapping[str, ServingLog], frames: int, from_s: float | None = None) -> Window:
    """Around the first preemption; if there is none, around the first time that the head of the queue found no room."""
    lines = {name: Timeline(log) for name, log in logs.items()}
    times = [line.start_s for line in lines.values()]
    times += [log.finish_s[~np.isnan(log.finish_s)] for log in logs.values()]
    preempted = [
        float(line.start_s[line.log.preemptions["step"][0]]) for line in lines.values() if len(line.log.preemptions)
    ]
    waited = [
        float(log.segments["start_s"][(log.segments["asked_blocks"] > 0).argmax()])
        for log in logs.values()
        if (log.segments["asked_blocks"] > 0).any()
    ]
    if preempted:
        around, at = "around the first preemption", min(preempted)
    elif waited:
        around, at = "around the first request that waited for room", max(waited)
    else:
        around, at = "from the start: nobody waited for room", None
    return _window(np.unique(np.concatenate(times)), frames, from_s, at, around)


def _window(times: Floats, frames: int, from_s: float | None, at: float | None, around: str) -> Window:
    """`times`: of all moments, in order, each once; none where every request was rejected."""
    if not len(times):
        return Window(0.0, 0.0, True, "from the start")
    if from_s is not None:
        first, around = int(np.searchsorted(times, from_s)), "as --map-from asks"
    else:
        first = 0 if at is None else int(np.searchsorted(times, at)) - frames // BEFORE
    first = max(0, min(first, len(times) - frames))
    last = min(first + frames, len(times)) - 1
    return Window(float(times[first]), float(times[last]), first == 0 and last == len(times) - 1, around)
