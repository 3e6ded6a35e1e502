"""What must hold of each log by itself, whatever the other says (SCHEDULER.md): checked before the two are compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pagesim.sim.serving.config import PAGED
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.log import ReplayLog, ReplayStep

MOST_SAID = 5


def broken_rules(log: ReplayLog, experiment: Experiment) -> list[str]:
    """The first few rules that a log breaks, a line each, in order of the steps; none for a sound log."""
    said = []
    for line in _Check(log, experiment).lines():
        said.append(f"{log.side}: {line}")
        if len(said) == MOST_SAID:
            break
    return said


class _Check:
    """Goes through a log and keeps what must follow from it."""

    def __init__(self, log: ReplayLog, experiment: Experiment) -> None:
        self._log, self._config, self._names = log, experiment.config, experiment.names
        trace = experiment.samples
        served = trace.total_tokens <= experiment.config.max_model_len
        served[sorted(log.rejected)] = False
        self._served: list[int] = np.flatnonzero(served).tolist()
        self._arrival_s: list[float] = trace.arrival_s.tolist()
        self._arrivals_s = trace.arrival_s[self._served]
        self._computed = int((trace.total_tokens - 1)[self._served].sum())
        self._running: set[int] = set()
        self._came: dict[int, int] = {}  # row -> how often it was let in
        self._finished: set[int] = set()
        self._last_first = -1  # the last row that was let in for the first time

    def lines(self) -> Iterator[str]:
        """What is broken."""
        waiting = arrived = 0
        for number, step in enumerate(self._log.steps):
            came = int(np.searchsorted(self._arrivals_s, step.start_s, side="right"))
            waiting += came - arrived + len(step.preempted) - len(step.admitted)
            arrived = came
            yield from self._counts(number, step)
            yield from self._moves(step)
            if step.waiting != waiting:
                yield f"step {step.step}: {step.waiting} wait, but {waiting} came and were not let in"
            if step.running != len(self._running):
                yield f"step {step.step}: {step.running} run, but {len(self._running)} were let in and have not left"
            yield from self._leave(step)
        yield from self._end()

    def _counts(self, number: int, step: ReplayStep) -> Iterator[str]:
        config = self._config
        usable = config.usable_blocks if config.allocator == PAGED else config.usable_tokens
        if step.step != number:
            yield f"step {step.step} comes where step {number} should"
        if number and step.start_s <= self._log.steps[number - 1].start_s:
            yield f"step {step.step} starts at {step.start_s} s, not after the step before it"
        for what, value, most in (
            ("running", step.running, config.max_num_seqs),
            ("scheduled_tokens", step.scheduled_tokens, config.token_budget),
            ("blocks_used", step.blocks_used, usable),
        ):
            if not 0 <= value <= most:
                yield f"step {step.step}: {what} {value}; must be from 0 to {most}"
        if bool(step.running) != bool(step.blocks_used):
            yield f"step {step.step}: {step.running} run and {step.blocks_used} blocks are used"

    def _moves(self, step: ReplayStep) -> Iterator[str]:
        if step.preempted and step.admitted:
            yield f"step {step.step} preempts and admits; one that preempts admits nobody"
        if step.preempted and self._config.allocator != PAGED:
            yield f"step {step.step} preempts, though every sequence has all its slots"
        for row in step.preempted:
            if row not in self._running:
                yield f"step {step.step} preempts {self._names[row]}, which does not run"
            self._running.discard(row)
        for row, hit in step.admitted:
            yield from self._admission(step, row, hit)

    def _admission(self, step: ReplayStep, row: int, hit: int) -> Iterator[str]:
        name, config = self._names[row], self._config
        if row in self._running or row in self._finished:
            yield f"step {step.step} admits {name}, which runs or has finished"
        if self._arrival_s[row] > step.start_s:
            yield f"step {step.step} admits {name} before it arrives"
        if hit % config.block_size or (hit and not config.prefix_caching):
            yield f"step {step.step}: {name} finds {hit} tokens, not whole blocks of a prefix cache"
        if row not in self._came and config.policy == "fcfs":
            if row < self._last_first:
                yield f"step {step.step}: {name} is let in after one that came later"
            self._last_first = row
        self._running.add(row)
        self._came[row] = self._came.get(row, 0) + 1

    def _leave(self, step: ReplayStep) -> Iterator[str]:
        for row in step.finished:
            if row not in self._running:
                yield f"step {step.step} finishes {self._names[row]}, which does not run"
            self._running.discard(row)
            self._finished.add(row)

    def _end(self) -> Iterator[str]:
        missing = [self._names[row] for row in self._served if row not in self._finished]
        if missing:
            yield f"{len(missing)} requests never finish, {missing[0]} the first"
        totals = self._log.totals
        if not missing and not self._config.prefix_caching and self._config.fork == "none":
            needed, done = self._computed, totals["scheduled_tokens"] - totals["recomputed_tokens"]
            if needed != done:
                yield f"{done} tokens were computed a first time; prompts and answers have {needed}"
