"""A scheduler on a virtual clock: requests arrive when they are due, and a step takes what a model says.

The clock is this side's own: it adds up what the step-time model says of the steps that were really scheduled. The
other side reckons the same times by a closed form, which rounds otherwise. So that rounding decides no arrival, a step
that starts within CLOCK of where the other side has it starts there; any larger difference stands, and will be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pagesim.engine.errors import RequestError
from pagesim.engine.sequence import Sequence as Request
from pagesim.engine.step import Step
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Floats
from pagesim.validate.replay.livelock import Livelock
from pagesim.validate.replay.log import CLOCK, ReplayLog, ReplayStep
from pagesim.validate.replay.machine import Machine

OnStep = Callable[[Step], None]


class Driver:
    """Takes a machine through an experiment. `on_scheduled` and `on_computed` are shown every step, before and after
    it is computed; `on_progress` is told of requests that end."""

    def __init__(
        self,
        machine: Machine,
        other_starts_s: Floats,
        on_scheduled: OnStep = lambda step: None,
        on_computed: OnStep = lambda step: None,
        on_progress: Callable[[int], None] = lambda finished: None,
    ) -> None:
        self.machine = machine
        self.steps: list[ReplayStep] = []
        self._experiment, self._scheduler = machine.experiment, machine.scheduler
        self._others: list[float] = other_starts_s.tolist()
        self._on_scheduled, self._on_computed, self._on_progress = on_scheduled, on_computed, on_progress
        self._arrival_s: list[float] = machine.prompts.trace.arrival_s.tolist()
        self._coming = offered(machine)[::-1]
        self._rejected: list[int] = []
        self._forks = machine.experiment.config.fork != "none"
        self._slots_each = machine.slots_each
        self._livelock = Livelock()

    def run(self, num_steps: int | None = None) -> ReplayLog:
        """To the end, or through the first `num_steps` steps. Raises AssertionError where it breaks a rule of its
        own."""
        now = 0.0
        while (self._coming or self._scheduler.has_work) and (num_steps is None or len(self.steps) < num_steps):
            if not self._scheduler.has_work:
                now = max(now, self._arrival_s[self._coming[-1][0]])
            now = self._clock(now)
            while self._coming and self._arrival_s[self._coming[-1][0]] <= now:
                self._offer(self._coming.pop())
            if self._scheduler.has_work:
                now += self._step(now)
        return ReplayLog(self.machine.side, self.steps, frozenset(self._rejected), self._scheduler.totals.as_dict())

    def _clock(self, now: float) -> float:
        number = len(self.steps)
        if number < len(self._others) and math.isclose(now, self._others[number], rel_tol=CLOCK, abs_tol=CLOCK):
            return self._others[number]
        return now

    def _offer(self, rows: range) -> None:
        try:
            self._scheduler.add(self.machine.request(rows))
        except RequestError:
            self._rejected.extend(rows)

    def _step(self, now: float) -> float:
        scheduler = self._scheduler
        step = scheduler.schedule()
        self._livelock.check(step.scheduled_tokens)
        duration_s = seconds(step, self._experiment.step_time)
        admitted = tuple(pair for each, hit in step.admitted for pair in _with_forks(each, hit))
        preempted = tuple(row for each in step.preempted for row, _ in _with_forks(each, 0))
        unforked = sum(len(each.forks) for each in scheduler.running) if self._forks else 0
        inside = sum(len(each.forks) for each in scheduler.waiting) if self._forks else 0
        self._on_scheduled(step)
        sampled = self.machine.compute(step)
        self._on_computed(step)
        finished = scheduler.finish_step(step, sampled)
        self.steps.append(
            ReplayStep(
                len(self.steps), now, duration_s, step.running + unforked, step.waiting + inside, step.scheduled_tokens,
                step.blocks_used * self._slots_each, admitted, preempted, tuple(int(each.id) for each in finished),
            )
        )  # fmt: skip
        self._on_progress(len(finished))
        return duration_s


def offered(machine: Machine) -> list[range]:
    """Requests that both sides are given, in order of arrival: an answer that would pass `max_model_len` is no such.

    The simulator turns it away, and an engine cuts it short.
    """
    longest, total = machine.experiment.config.max_model_len, machine.prompts.trace.total_tokens
    return [rows for rows in machine.experiment.groups if total[rows[0]] <= longest]


def seconds(step: Step, step_time: StepTime) -> float:
    """What a step takes, by the model that the simulator asks too; its sums are added up here, chunk by chunk."""
    tokens = pairs = contexts = 0
    for sequence, start, num_tokens, samples in step.chunks:
        tokens += num_tokens
        if num_tokens == 1 and samples and start + 1 > sequence.num_prompt:
            contexts += start + 1
        else:
            pairs += num_tokens * start + num_tokens * (num_tokens + 1) // 2
    return step_time.seconds(tokens, pairs, contexts, len(step.chunks))


def _with_forks(request: Request, hit_tokens: int) -> Sequence[tuple[int, int]]:
    """A request and the samples that wait inside it, as they are counted by the simulator: each by itself."""
    return [(int(request.id), hit_tokens), *((int(fork.id), 0) for fork in request.forks)]
