"""The log of single steps, expanded from stretches of like ones: what a recording of the scheduler holds.

Everything is read after a step was scheduled and before its outputs are processed; a request that samples its last
token in a step is still counted as running in it, and its blocks as used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.files import atomic
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.trace import Floats, Ints

Step = dict[str, Any]


def steps(log: ServingLog, ids: Sequence[object] | None = None, by_clock: bool = False) -> Iterator[Step]:
    """One dictionary for each step: step, t (seconds, its start), running, waiting, scheduled_tokens, blocks_used,
    admitted [[id, hit_tokens]], preempted [id], finished [id].

    `ids`: what requests are called, default their rows. `by_clock`: number a step by the whole seconds on its clock,
    not by counting the busy ones; recordings do, in which a step takes one second. Raises UsageError if the run did not
    keep its steps.
    """
    if log.taking is None:
        raise UsageError("this run did not keep its single steps; accepted: a run with keep_steps")
    names = range(len(log.arrival_s)) if ids is None else ids
    repeats = log.segments["steps"]
    segment_of = np.repeat(np.arange(len(repeats)), repeats)
    start_s = _start_s(log, repeats)
    waiting = _waiting(log, start_s)
    blocks_used = _blocks_used(log, repeats)
    events = _events(log, names)
    columns = (start_s, *(log.segments[name][segment_of] for name in ("running", "tokens")))
    for step, (t, running, tokens, waits, used) in enumerate(
        zip(*(column.tolist() for column in (*columns, waiting, blocks_used)), strict=True)
    ):
        happened = events.get(step, {})
        yield {
            "step": int(t) if by_clock else step,
            "t": t,
            "running": running,
            "waiting": waits,
            "scheduled_tokens": tokens,
            "blocks_used": used,
            **{name: happened.get(name, []) for name in ("admitted", "preempted", "finished")},
        }


def write_steps(path: Path, rows: Iterator[Step]) -> None:
    """One JSON object a line. Raises UsageError if `path` cannot be written."""
    encode = msgspec.json.Encoder().encode
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.writelines(encode(row) + b"\n" for row in rows)


def _place(repeats: Ints) -> Ints:
    """The place of each step within its segment."""
    return np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)


def _start_s(log: ServingLog, repeats: Ints) -> Floats:
    place = _place(repeats)
    start_s, first_s, growth_s = (np.repeat(log.segments[name], repeats) for name in ("start_s", "first_s", "growth_s"))
    return start_s + (place * first_s + growth_s * (place * (place - 1) // 2))


def _waiting(log: ServingLog, start_s: Floats) -> Ints:
    """Arrived and servable, less those that have come in, and back for good."""
    arrived = np.searchsorted(log.arrival_s[~log.rejected], start_s, side="right")
    change = np.zeros(len(start_s), np.int64)
    np.add.at(change, log.preemptions["step"], 1)
    np.add.at(change, log.admissions["step"], -1)
    return arrived + np.cumsum(change)


def _blocks_used(log: ServingLog, repeats: Ints) -> Ints:
    used = np.repeat(log.segments["blocks_used"], repeats)
    starts = log.first_steps
    for segment, taking in (log.taking or {}).items():
        count, start = int(repeats[segment]), int(starts[segment])
        if taking and count > 1:
            used[start + 1 : start + count] += np.cumsum(np.resize(np.array(taking), count)[1:])
    return used


def _events(log: ServingLog, names: Sequence[object]) -> dict[int, dict[str, list[Any]]]:
    events: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for step, row, hit, _ in log.admissions.tolist():
        events[step]["admitted"].append([names[row], hit])
    for step, row in log.preemptions.tolist():
        events[step]["preempted"].append(names[row])
    for step, row in _finishes(log):
        events[step]["finished"].append(names[row])
    return events


def _finishes(log: ServingLog) -> Iterator[tuple[int, int]]:
    """(step, row) of each finish, in order of the running list, which is that of the last admissions.

    The step is the last of the segment at whose end the request finished.
    """
    latest = log.admissions["row"][::-1]
    rows = latest[np.sort(np.unique(latest, return_index=True)[1])][::-1]  # each once, by its last admission
    rows = rows[~np.isnan(log.finish_s[rows])]
    segment = np.searchsorted(log.segments["start_s"], log.finish_s[rows], side="left") - 1
    last = (log.first_steps + log.segments["steps"] - 1)[segment]
    return zip(last.tolist(), rows.tolist(), strict=True)
