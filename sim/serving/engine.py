"""The run between two happenings: how many steps are alike, how long they take together, what they leave behind.

Between an arrival that can be admitted, a finish, a block that cannot be had and a chunk of a prompt, every step is
like the one before: each sequence gains a token. The engine leaps over all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Generator

from pagesim.sim.serving.record import Record, pack_segment
from pagesim.sim.serving.running import NUMBER_BITS, ONE_STEP
from pagesim.sim.serving.scheduler import NO_BLOCKS, NO_BUDGET, NO_SEQUENCE, NOBODY_WAITS, Scheduler
from pagesim.sim.serving.steptime import StepTime


class Engine:
    """Takes a scheduler through time. `num_finished` requests are done."""

    def __init__(self, scheduler: Scheduler, step_time: StepTime) -> None:
        self.scheduler, self.step_time = scheduler, step_time
        self.record: Record = scheduler.record
        self.num_finished = 0

    def stretches(self) -> Generator[float, float, None]:
        """The run, from one moment at which something is due to the next: is sent the time, yields how long to wait.

        The inner loop of everything, hence its locals. The first value yielded is for starting it, and means nothing.
        """
        scheduler, running, record = self.scheduler, self.scheduler.running, self.record
        waiting, pool, most = scheduler.waiting, scheduler.pool, scheduler.most_decodes
        rows, ends, prefilling, taking = running.rows, running.ends, running.prefilling, running.taking
        seconds, growth_s, segments = self.step_time.seconds, self.step_time.growth_s, record.segments
        head_of, usable, size = waiting.head, pool.free, len(taking)
        full = NO_SEQUENCE if scheduler.forks is None else None  # why no newcomer can be let in, whoever it is
        limit = NO_BUDGET if full and most < scheduler.config.max_num_seqs else NO_SEQUENCE
        now = yield 0.0
        while True:
            step = running.step
            if ends and ends[0] < (step + 1) * ONE_STEP:
                self._finish(now)
            head = head_of(now)
            if head is not None or prefilling or taking[step % size] > pool.free or scheduler.restless:
                scheduler.schedule(now, head)
                decodes, stop, taken, contexts = scheduler.decodes, scheduler.stop, scheduler.blocks, scheduler.contexts
                first = seconds(scheduler.tokens, scheduler.prefill_pairs, contexts, scheduler.sequences)
                if not scheduler.quiet:
                    self._busy(now, first, usable)
                    if scheduler.again_tokens:
                        self._recomputed(first)
                    running.step = step + 1
                    now = yield first
                    continue
            elif rows:
                decodes = running.decoding
                stop, taken = NOBODY_WAITS if decodes < most else limit, 0
                contexts = decodes * (step + 1) - running.base_sum
                first = seconds(decodes, 0, contexts, decodes)
            elif waiting.next_arrival_s < math.inf:
                now = yield waiting.next_arrival_s - now
                continue
            else:
                return
            growth = growth_s(decodes)
            steps = running.steps_to_finish() if running.stale else (ends[0] >> NUMBER_BITS) - step
            wait = steps * first + growth * (steps * (steps - 1) // 2)
            arrival_s = waiting.next_arrival_s
            if arrival_s < now + wait and (stop == 0 or (waiting.newcomers_matter and stop != full)):
                steps = steps_until(arrival_s, now, first, growth)
                wait = steps * first + growth * (steps * (steps - 1) // 2)
            free = pool.free + taken
            blocks = running.blocks_in(steps)
            if blocks > free:
                steps = running.steps_within(free)
                blocks = running.blocks_in(steps)
                wait = steps * first + growth * (steps * (steps - 1) // 2)
            ripens_in = pool.ripens_in if stop else None
            if ripens_in is not None and ripens_in < steps:
                steps = ripens_in
                blocks = running.blocks_in(steps)
                wait = steps * first + growth * (steps * (steps - 1) // 2)
            if stop == NO_BLOCKS and pool.at_stake and blocks - taken > pool.free - pool.cached:
                steps, blocks, wait = 1, taken, first
            used = usable - free
            used_first, used_last = used + taking[step % size], used + blocks
            segments += pack_segment(
                now, first, growth, steps, decodes, decodes, decodes, used_first, used_last, contexts,
                pool.shared_tokens, min(pool.cached, usable - used_first), stop, 0 if head is None else scheduler.asked,
            )  # fmt: skip
            if blocks > taken:
                pool.take(blocks - taken)
            running.step = step + steps
            now = yield wait

    def _busy(self, now: float, duration: float, usable: int) -> None:
        """Write down a step in which more than decoding happens."""
        scheduler, running = self.scheduler, self.scheduler.running
        gaps, used = scheduler.decodes - len(scheduler.late), usable - scheduler.pool.free
        contexts = running.decoding * (running.step + 1) - running.base_sum
        unforked = 0
        if scheduler.forks is not None:
            unforked = scheduler.forks.unforked
            self.record.shared_tails.extend((running.step, scheduler.forks.shared_tails))
        if running.prefilling:
            contexts += sum(running.prefilling.values())
        self.record.segments += pack_segment(
            now, duration, 0.0, 1, len(running.rows) + unforked, scheduler.tokens, gaps, used, used, contexts,
            scheduler.pool.shared_tokens, scheduler.pool.cached, scheduler.stop, scheduler.asked,
        )  # fmt: skip
        if scheduler.completing or scheduler.late:
            self._sample(now + duration)

    def _recomputed(self, duration: float) -> None:
        """Write down how much shorter the step would be without what had been computed before."""
        scheduler = self.scheduler
        shorter = self.step_time.seconds(
            scheduler.tokens - scheduler.again_tokens,
            max(0, scheduler.prefill_pairs - scheduler.again_pairs),
            scheduler.contexts,
            scheduler.sequences,
        )
        self.record.recomputing.extend((scheduler.running.step, duration - shorter))

    def _finish(self, now: float) -> None:
        """Requests whose last output was sampled in the step just done give back what they hold."""
        last_pass, finish_s, finish = (
            self.scheduler.requests.last_pass,
            self.record.finish_s,
            self.scheduler.pool.finish,
        )
        finished = self.scheduler.running.take_finished()
        for row in finished:
            finish(row, last_pass[row])
            finish_s[row] = now
        self.num_finished += len(finished)
        if self.scheduler.restless and not self.scheduler.running.rows:
            self.scheduler.restless = False  # those who would have copied are gone

    def _sample(self, end: float) -> None:
        """Tokens sampled at `end` by requests that got none in the step before."""
        record, scheduler = self.record, self.scheduler
        for row in scheduler.completing:
            if row in record.last_token_s:
                record.odd_gaps.extend((end, end - record.last_token_s.pop(row)))
            else:
                record.first_token_s[row] = end
        for row in scheduler.late:
            record.odd_gaps.extend((end, end - record.last_token_s.pop(row)))
        scheduler.late = []


def steps_until(when: float, now: float, first: float, growth: float) -> int:
    """The least number of steps, 1 or more, after which it is `when` or later.

    The first step takes `first`, and each other `growth` longer than the one before.
    """
    wanted = when - now
    if growth:  # growth/2 * n^2 + (first - growth/2) * n = wanted
        linear = first - growth / 2
        guess = 2 * wanted / (math.sqrt(linear * linear + 2 * growth * wanted) + linear)
    else:
        guess = wanted / first
    steps = max(1, math.ceil(guess))
    while now + (steps * first + growth * (steps * (steps - 1) // 2)) < when:
        steps += 1
    while steps > 1 and now + ((steps - 1) * first + growth * ((steps - 1) * (steps - 2) // 2)) >= when:
        steps -= 1
    return steps
