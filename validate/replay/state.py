"""Who runs at one step, and how far each has come: what a row of a log does not say."""

from __future__ import annotations

import numpy as np

from pagesim.engine.step import Step
from pagesim.sim.serving.log import ServingLog
from pagesim.validate.replay.log import ReplayLog
from pagesim.validate.replay.machine import Scheduling

State = tuple[
    tuple[int, int], ...
]  # (request, tokens computed when the step is done), in the order of the running list


def state(step: Step, scheduler: Scheduling) -> State:
    """After `step` was scheduled and before its outputs are there. Samples stand behind the one they wait inside."""
    stops = {chunk.sequence.id: chunk.stop for chunk in step.chunks}
    return tuple(
        (int(each.id), stops.get(sequence.id, sequence.num_computed))
        for sequence in scheduler.running
        for each in (sequence, *sequence.forks)
    )


def simulated_state(log: ServingLog, replay: ReplayLog, number: int) -> State:
    """Told from the log: each by its last chunk of a prompt, and the steps since in which it got a token."""
    return tuple((row, _computed(log, row, number)) for row in running(replay, number))


def running(replay: ReplayLog, number: int) -> list[int]:
    """Requests in the running list when step `number` was scheduled, in order of admission."""
    rows: dict[int, None] = {}
    finished: tuple[int, ...] = ()
    for step in replay.steps[: number + 1]:
        for row in (*finished, *step.preempted):
            rows.pop(row, None)
        rows.update(dict.fromkeys(row for row, _ in step.admitted))
        finished = step.finished
    return list(rows)


def _computed(log: ServingLog, row: int, number: int) -> int:
    chunks = log.chunks[(log.chunks["row"] == row) & (log.chunks["step"] <= number)]
    if not len(chunks):
        return 0
    last = chunks[-1]
    if last["computed"] < last["known"]:
        return int(last["computed"])
    held_back = (
        (log.held_back["row"] == row) & (log.held_back["step"] > last["step"]) & (log.held_back["step"] <= number)
    )
    return int(last["computed"] + number - last["step"] - np.count_nonzero(held_back))
