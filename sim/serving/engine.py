"""The run between two happenings: how many steps are alike, how long they take together, what they leave behind.

Between an arrival that can be admitted, a finish, a block that cannot be had and a chunk of a prompt, every step is
like the one before: each sequence gains a token. The engine jumps over all of them at once.
"""

from __future__ import annotations

import math

from pagesim.sim.serving.record import SEGMENT, Record, pack_segment
from pagesim.sim.serving.running import NUMBER_BITS
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
        scheduler, running, pool = self.scheduler, self.running, self.pool
        ends = running.ends
        if ends and ends[0] < running.step + 1 << NUMBER_BITS:
            self._finish(now)
        if not running.rows and not self.waiting.anyone(now):
            idle_s = self.waiting.next_arrival_s - now
            return idle_s if idle_s < math.inf else None
        scheduler.schedule(now)
        used = self.usable_blocks - pool.free
        duration = first = self.step_time.seconds(
            scheduler.tokens, scheduler.prefill_pairs, scheduler.contexts, scheduler.sequences
        )
        steps, growth, gaps = 1, 0.0, scheduler.decodes
        if scheduler.quiet:
            growth = self.step_time.growth_s(gaps)
            steps = self._steps(now, first, growth)
            duration = steps * first + growth * (steps * (steps - 1) // 2)
        elif scheduler.completing or scheduler.late:
            gaps -= len(scheduler.late)
            self._first_tokens(now + duration)
        self.record.segments += pack_segment(
            now, first, growth, steps, len(running.rows), scheduler.tokens, gaps, used, self.usable_blocks - pool.free,
            scheduler.stop,
        )  # fmt: skip
        running.step += steps
        return duration

    def _finish(self, now: float) -> None:
        """Requests whose last output was sampled in the step just done give back what they hold."""
        last_pass, finish_s, finish = self.scheduler.requests.last_pass, self.record.finish_s, self.pool.finish
        for row in self.running.take_finished():
            finish(row, last_pass[row])
            finish_s[row] = now
            self.num_finished += 1

    def _steps(self, now: float, first: float, growth: float) -> int:
        """How many steps are like the one just scheduled, itself among them. Takes the blocks that the others need."""
        running, scheduler, waiting = self.running, self.scheduler, self.waiting
        steps = running.steps_to_finish()
        if scheduler.stop == NOBODY_WAITS or (waiting.newcomers_matter and scheduler.stop != NO_SEQUENCE):
            if waiting.next_arrival_s < now + run_s(steps, first, growth):
                steps = steps_until(waiting.next_arrival_s, now, first, growth)
        if steps > 1:
            free = self.pool.free + scheduler.blocks
            blocks = running.blocks_in(steps)
            if blocks > free:
                steps = running.steps_within(free)
                blocks = running.blocks_in(steps)
            self.pool.take(blocks - scheduler.blocks)
            if self.record.taking is not None:
                self.record.taking[len(self.record.segments) // SEGMENT.itemsize] = running.blocks_by_step()
        return steps

    def _first_tokens(self, end: float) -> None:
        """Tokens sampled at `end` by requests that got none in the step before."""
        record, scheduler = self.record, self.scheduler
        for row in scheduler.completing:
            if row in record.last_token_s:
                record.odd_gaps_s.append(end - record.last_token_s.pop(row))
            else:
                record.first_token_s[row] = end
        for row in scheduler.late:
            record.odd_gaps_s.append(end - record.last_token_s.pop(row))
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
