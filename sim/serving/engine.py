"""The run between two happenings: how many steps are alike, how long they take together, what they leave behind.

Between an arrival that can be admitted, a finish, a block that cannot be had and a chunk of a prompt, every step is
like the one before: each sequence gains a token. `advance` jumps over all of them at once.
"""

from __future__ import annotations

import math

from pagesim.sim.serving.record import SEGMENT, Record
from pagesim.sim.serving.scheduler import NO_SEQUENCE, NOBODY_WAITS, Scheduler
from pagesim.sim.serving.steptime import StepTime


class Engine:
    """Advances a scheduler through time. `num_finished` requests are done."""

    def __init__(self, scheduler: Scheduler, step_time: StepTime) -> None:
        self.scheduler, self.step_time = scheduler, step_time
        self.running, self.waiting, self.pool = scheduler.running, scheduler.waiting, scheduler.pool
        self.record: Record = scheduler.record
        self.usable_blocks = scheduler.pool.free
        self.num_finished = 0

    def advance(self, now: float) -> float | None:
        """Do what is due `now`. The time until the next call is due, in seconds, or None: everyone has been served."""
        scheduler, running, pool, record = self.scheduler, self.running, self.pool, self.record
        last_pass, finish_s = scheduler.requests.last_pass, record.finish_s
        for row in running.take_finished():
            pool.finish(row, last_pass[row])
            finish_s[row] = now
            self.num_finished += 1
        if not running.rows and self.waiting.head(now) is None:
            idle_s = self.waiting.next_arrival_s - now
            return idle_s if idle_s < math.inf else None
        scheduler.schedule(now)
        duration = first = self.step_time.seconds(
            scheduler.tokens, scheduler.prefill_pairs, scheduler.contexts, scheduler.sequences
        )
        used, steps, growth = self.usable_blocks - pool.free, 1, 0.0
        if scheduler.quiet:
            growth = self.step_time.growth_s(scheduler.decodes)
            steps = self._steps(now, first, growth)
            duration = run_s(steps, first, growth)
        record.segments.extend((
            now, first, growth, steps, len(running.rows), scheduler.tokens, scheduler.decodes - len(scheduler.late), used,
            self.usable_blocks - pool.free, scheduler.stop,
        ))  # fmt: skip
        if scheduler.completing or scheduler.late:
            self._first_tokens(now + duration)
        running.step += steps
        return duration

    def _steps(self, now: float, first: float, growth: float) -> int:
        """How many steps are like the one just scheduled, itself among them. Takes the blocks that the others need."""
        running, scheduler, pool = self.running, self.scheduler, self.pool
        steps = running.steps_to_finish()
        if scheduler.stop == NOBODY_WAITS or (self.waiting.newcomers_matter and scheduler.stop != NO_SEQUENCE):
            arrival_s = self.waiting.next_arrival_s
            if arrival_s < now + run_s(steps, first, growth):
                steps = steps_until(arrival_s, now, first, growth)
        if steps > 1:
            steps = running.steps_within(pool.free + scheduler.blocks, steps)
            pool.take(running.blocks_in(steps) - scheduler.blocks)
            if self.record.taking is not None:
                self.record.taking[len(self.record.segments) // len(SEGMENT)] = running.blocks_by_step()
        return steps

    def _first_tokens(self, end: float) -> None:
        """Tokens sampled at `end` by requests that got none in the step before."""
        record, scheduler = self.record, self.scheduler
        for row in (*scheduler.late, *scheduler.completing):
            last = record.last_token_s.pop(row, None)
            if last is None:
                record.first_token_s[row] = end
            else:
                record.odd_gaps_s.append(end - last)
        scheduler.late = []


def run_s(steps: int, first: float, growth: float) -> float:
    """Duration of `steps` steps, of which the first takes `first` and each other `growth` longer than the last."""
    return steps * first + growth * (steps * (steps - 1) // 2)


def steps_until(when: float, now: float, first: float, growth: float) -> int:
    """The least number of steps, 1 or more, after which it is `when` or later."""
    wanted = when - now
    if growth:  # growth/2 * n^2 + (first - growth/2) * n = wanted
        linear = first - growth / 2
        guess = 2 * wanted / (math.sqrt(linear * linear + 2 * growth * wanted) + linear)
    else:
        guess = wanted / first
    steps = max(1, math.ceil(guess))
    while steps > 1 and now + run_s(steps - 1, first, growth) >= when:
        steps -= 1
    while now + run_s(steps, first, growth) < when:
        steps += 1
    return steps
