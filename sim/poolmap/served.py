"""Records a run in which requests wait: its log is gone through again, step by step, and blocks are given names.

A log says how many blocks each sequence took and gave back, in which step, and how many tokens were found; not which
blocks. With paging these are named here (`blocks`), under the scheduler's rules, and must come to the log's counts in
every step. Behind an allocator of contiguous runs that allocator places the same requests again, in the same order, at
its own addresses.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pagesim.sim.poolmap.contiguous_steps import ContiguousSteps
from pagesim.sim.poolmap.paged_steps import PagedSteps
from pagesim.sim.poolmap.recording import NO_TIME, Event, Kind, NoMapError, Owner, Recording
from pagesim.sim.poolmap.window import Window
from pagesim.sim.serving.config import PAGED
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.trace import Trace


class Steps(Protocol):
    """What goes through a log in order. `used` is in blocks, or slots; `largest_free_run` and `given_for` in slots."""

    @property
    def used(self) -> int: ...  # noqa: D102
    @property
    def largest_free_run(self) -> int: ...  # noqa: D102
    def given_for(self, asked: int) -> int: ...  # noqa: D102
    def state(self, step: int) -> list[Event]: ...  # noqa: D102
    def finish(self, step: int) -> list[Event]: ...  # noqa: D102
    def events(self, step: int) -> list[Event]: ...  # noqa: D102


def record_serving(name: str, trace: Trace, log: ServingLog, window: Window) -> Recording:
    """What happened inside `window`. `trace`: the one served. Raises NoMapError if the rules of the log have no map."""
    config = log.config
    if config.evict != "lru" or config.prefix_match_unit:
        rule = f"--evict {config.evict}" if config.evict != "lru" else "--prefix-match-unit"
        raise NoMapError(f"the map does not follow {rule}")
    paged = config.allocator == PAGED
    recording = Recording(name, config.usable_tokens, config.block_size if paged else 1, "step", plain=paged)
    lengths = zip(log.prompt_tokens.tolist(), log.output_tokens.tolist(), strict=True)
    recording.owners += [Owner(row, prompt, prompt + output - 1) for row, (prompt, output) in enumerate(lengths)]
    steps: Steps = PagedSteps(independent_samples(trace), log) if paged else ContiguousSteps(log)
    _write(recording, log, steps, window)
    return recording


def _write(recording: Recording, log: ServingLog, steps: Steps, window: Window) -> None:
    line, opened = Timeline(log), False
    start_s, used = line.start_s.tolist(), line.blocks_used.tolist()
    asked = np.repeat(log.segments["asked_blocks"], log.segments["steps"]).tolist()
    unit, usable = log.slots_per_block, log.config.usable_tokens // log.slots_per_block
    last_s = float(np.nanmax(log.finish_s)) if len(start_s) else 0.0  # everybody is served in the end
    for step, time_s in enumerate([*start_s, last_s]):
        if time_s > window.to_s:
            break
        if not opened and time_s >= window.from_s:
            opened = True
            recording.events_at(NO_TIME, step - 1).extend(steps.state(step - 1))
        gone = steps.finish(step - 1)
        owners = [event.owner for event in gone if event.owner is not None]
        ended_s = float(log.finish_s[owners[0]]) if owners else time_s
        if opened and gone:
            recording.events_at(ended_s, step if ended_s == time_s else step - 1).extend(gone)
        if step == len(start_s):
            break
        events = steps.events(step)
        assert steps.used == used[step], f"step {step}: {steps.used} held here, {used[step]} in the log"
        if asked[step]:
            wanted = asked[step] * unit
            numbers = (wanted, (usable - used[step]) * unit, steps.largest_free_run, steps.given_for(wanted))
            events.append(Event(Kind.WAIT, None, numbers=numbers))
        if opened:
            recording.events_at(time_s, step).extend(events)
