"""The step as it is written: through the running list from the front, making room by putting requests back.

For the steps in which there are too few blocks for all, or too small a budget; it costs a little for each sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagesim.sim.serving.forking_pool import ForkingPool
    from pagesim.sim.serving.scheduler import Scheduler


class Walk:
    """One such step of a scheduler."""

    def __init__(self, scheduler: Scheduler, now: float) -> None:
        self.scheduler, self.now = scheduler, now
        self.requests, self.running, self.pool = scheduler.requests, scheduler.running, scheduler.pool
        self.budget = scheduler.config.token_budget
        self.granted: dict[int, tuple[int, int]] = {}  # number -> (tokens before, tokens), in the order of the list
        self.preempted = False

    def run(self) -> int | None:
        """The budget left; None if someone had to go."""
        for number in list(self.running.rows):
            if self.budget <= 0:
                break
            if number in self.running.rows and not self._serve(number):
                break
        self._book()
        return None if self.preempted else self.budget

    def _serve(self, number: int) -> bool:
        """Give a sequence its tokens of this step. False if it had to go itself."""
        before, wanted = self._before(number)
        tokens = min(wanted, self.budget)
        missing, forks, row = (
            self.pool.missing(before, before + tokens),
            self.scheduler.forks,
            self.running.rows[number],
        )
        while missing + (0 if forks is None else forks.copies(row)) > self.pool.free:
            victim = self._victim()
            self._preempt(victim)
            if victim == number:
                return False
        if number in self.running.prefilling:
            self.pool.extend(row, before, before + tokens)
        else:
            self.pool.take(missing)
            if forks is not None:
                forks.write(row, before)
        self.granted[number] = before, tokens
        self.budget -= tokens
        return True

    def _before(self, number: int) -> tuple[int, int]:
        """Tokens computed before this step, and tokens that the sequence could compute in it."""
        row = self.running.rows[number]
        before = self.running.prefilling.get(number)
        if before is None:
            return self.running.step - self.running.base[row], 1
        return before, min(self.requests.known[row] - before, self.scheduler.cap)

    def _victim(self) -> int:
        """The number of whoever goes: the last of the list, or what another rule picks, the last among equals."""
        config, rows = self.scheduler.config, self.running.rows
        if config.policy == "priority":
            priority = self.requests.priority
            return max(rows, key=lambda number: (priority[rows[number]] if priority else 0, rows[number]))
        newest = reversed(rows)
        if config.victim == "last":
            return next(newest)
        if config.victim == "fewest-blocks":
            return min(newest, key=lambda number: -(-self._held(number) // config.block_size))
        return (max if config.victim == "longest" else min)(newest, key=self._length)

    def _held(self, number: int) -> int:
        """Tokens for which the sequence has blocks."""
        before, tokens = self.granted.get(number) or (self._before(number)[0], 0)
        return before + tokens

    def _length(self, number: int) -> int:
        """Tokens that are known of the sequence."""
        row = self.running.rows[number]
        return self.requests.known[row] if number in self.running.prefilling else self._before(number)[0] + 1

    def _preempt(self, number: int) -> None:
        """Free all its blocks, forget what it computed, keep its answer so far, and put it in front of the queue."""
        requests, running = self.requests, self.running
        row, held, (before, _) = running.rows[number], self._held(number), self._before(number)
        self.budget += self.granted.pop(number, (0, 0))[1]
        if number not in running.prefilling:
            requests.known[row] = before + 1
            self.scheduler.record.last_token_s.setdefault(row, self.now)
        requests.seen[row] = max(before, requests.seen.get(row, 0))
        if self.scheduler.host is not None:
            self.scheduler.host.put(row, before)
        running.leave(number)
        self.pool.preempt(row, held)
        self.scheduler.waiting.put_back(row)
        self.scheduler.record.preemptions.extend((running.step, row))
        if self.scheduler.forks is not None:
            self._preempt_unforked(self.scheduler.forks, row)
        self.preempted = True

    def _preempt_unforked(self, forks: ForkingPool, row: int) -> None:
        """Samples that were to share its prompt go with it."""
        followers = forks.followers.get(row, ())
        forks.unforked -= len(followers)
        for follower in followers:
            self.scheduler.record.preemptions.extend((self.running.step, follower))

    def _book(self) -> None:
        """Leave behind in the scheduler what this step computes."""
        scheduler, running = self.scheduler, self.running
        prefills = [number for number in self.granted if number in running.prefilling]
        decodes = [number for number in self.granted if number not in running.prefilling]
        starved = [n for n in running.rows if n not in running.prefilling and n not in self.granted]
        were_late = set(scheduler.held_back)
        scheduler.late = [running.rows[number] for number in decodes if running.rows[number] in were_late]
        scheduler.held_back = [running.rows[number] for number in starved]
        scheduler.restless = bool(starved) or (scheduler.forks is not None and scheduler.forks.due > 0)
        for row in scheduler.held_back:
            scheduler.record.last_token_s.setdefault(row, self.now)
        for number in starved:
            running.hold_back(number)
            scheduler.record.held_back.extend((running.step, running.rows[number]))
        scheduler.tokens = scheduler.decodes = scheduler.sequences = len(decodes)
        scheduler.contexts = sum(self.granted[number][0] + 1 for number in decodes)
        for number in prefills:
            scheduler.compute(number, running.rows[number], *self.granted[number])
