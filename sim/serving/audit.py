"""The account of a run, asserted from the scheduler's side while it runs (`check`).

Whoever is in the running list, and how far each has come, says how many blocks are held; the pool must say the same.
Called between stretches, when every sequence has what it needs up to the last step scheduled.
"""

from __future__ import annotations

from pagesim.sim.serving.scheduler import Scheduler


class Audit:
    """Asserts, each time it is asked: blocks are conserved, nobody holds one for nothing, nobody runs past the limit.

    Costs time linear in the pool.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._usable = scheduler.pool.free

    def check(self) -> None:
        """Raises AssertionError."""
        scheduler, pool = self._scheduler, self._scheduler.pool
        running = scheduler.running
        seats = len(running.rows) + (0 if scheduler.forks is None else scheduler.forks.unforked)
        assert seats <= scheduler.config.max_num_seqs, (seats, running.rows)
        assert running.decoding + len(running.prefilling) == len(running.rows), (running.decoding, running.prefilling)
        pool.check()
        if scheduler.host is not None:
            scheduler.host.check()
        held = pool.held({row: self._computed(number, row) for number, row in running.rows.items()})
        assert held + pool.free == self._usable, f"{held} held, {pool.free} free, {self._usable} usable\n{running.rows}"

    def _computed(self, number: int, row: int) -> int:
        running = self._scheduler.running
        tokens = running.prefilling.get(number)
        return running.step - running.base[row] if tokens is None else tokens
