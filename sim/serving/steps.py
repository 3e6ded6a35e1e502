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

from pagesim.sim.files import atomic
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.timeline import Timeline

Step = dict[str, Any]


def steps(log: ServingLog, ids: Sequence[object] | None = None, by_clock: bool = False) -> Iterator[Step]:
    """One dictionary for each step: step, t (seconds, its start), running, waiting, scheduled_tokens, blocks_used,
    admitted [[id, hit_tokens]], preempted [id], finished [id].

    `ids`: what requests are called, default their rows. `by_clock`: number a step by the whole seconds on its clock,
    not by counting the busy ones; recordings do, in which a step takes one second.
    """
    events = _events(log, range(len(log.arrival_s)) if ids is None else ids)
    line = Timeline(log)
    columns = (line.start_s, line.running, line.waiting, line.scheduled_tokens, line.blocks_used)
    for step, (t, running, waiting, tokens, used) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        happened = events.get(step, {})
        yield {
            "step": int(t) if by_clock else step,
            "t": t,
            "running": running,
            "waiting": waiting,
            "scheduled_tokens": tokens,
            "blocks_used": used,
            **{name: happened.get(name, []) for name in ("admitted", "preempted", "finished")},
        }


def write_steps(path: Path, rows: Iterator[Step]) -> None:
    """One JSON object a line. Raises UsageError if `path` cannot be written."""
    encode = msgspec.json.Encoder().encode
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.writelines(encode(row) + b"\n" for row in rows)


def _events(log: ServingLog, names: Sequence[object]) -> dict[int, dict[str, list[Any]]]:
    events: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for step, row, hit, *_ in log.admissions.tolist():
        events[step]["admitted"].append([names[row], hit])
    for step, row in log.preemptions.tolist():
        events[step]["preempted"].append(names[row])
    rows, finish_steps = log.finishes
    for row, step in zip(rows.tolist(), finish_steps.tolist(), strict=True):
        events[step]["finished"].append(names[row])
    return events
