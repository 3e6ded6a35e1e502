"""The running list, kept so that a step in which everybody gains a token costs nothing for each of them.

`step` counts the steps done. A sequence that decodes has computed `step - base` tokens, so its record does not change
from step to step; it is due to finish when `step` reaches `base + last_pass`, and takes a block in each step whose
number is congruent to `base`. Sequences still in prefill are few and are kept one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

NUMBER_BITS = 40  # of an entry of `ends`: the finishing step above, the number of the admission below
ONE_STEP = 1 << NUMBER_BITS
NUMBER_MASK = ONE_STEP - 1


class Running:
    """Sequences that are in the batch, by number of admission, which is their order in the list.

    `rows`: number -> row of the trace. `prefilling`: number -> tokens computed. `decoding` counts the others, and
    `taking[p]` those among them that take a block in each step congruent to p modulo the block size. `ends`: a heap of
    the steps at which they finish. `stale`: some of these may not hold any more.
    """

    def __init__(self, last_pass: list[int], block_size: int | None) -> None:
        """`last_pass`, by row: tokens computed when the last output is sampled. `block_size` None: blocks are never
        taken but on admission."""
        self.step = 0
        self.rows: dict[int, int] = {}
        self.prefilling: dict[int, int] = {}
        self.decoding = 0
        self.base = [0] * len(last_pass)
        self.base_sum = 0
        self.taking = [0] * (block_size or 1)
        self.ends: list[int] = []
        self.stale = False
        self.on_hold: Callable[[int], None] | None = None
        self._last_pass = last_pass
        self._grows = 0 if block_size is None else 1

    def decode(self, number: int, row: int, base: int) -> None:
        """From the step after this one on the sequence decodes; `base` is that step less the tokens computed then."""
        self.base[row] = base
        self.base_sum += base
        self.decoding += 1
        self.taking[base % len(self.taking)] += self._grows
        heappush(self.ends, (base + self._last_pass[row]) * ONE_STEP + number)

    def leave(self, number: int) -> None:
        """Take a sequence out of the list before its end."""
        row = self.rows.pop(number)
        if self.prefilling.pop(number, None) is None:
            self._stop_decoding(row)

    def hold_back(self, number: int) -> None:
        """A decode gets no token in this step: all its future is one step later."""
        row = self.rows[number]
        if self.on_hold is not None:
            self.on_hold(row)
        self._stop_decoding(row)
        self.decode(number, row, self.base[row] + 1)

    def _stop_decoding(self, row: int) -> None:
        base = self.base[row]
        self.decoding -= 1
        self.base_sum -= base
        self.taking[base % len(self.taking)] -= self._grows
        self.stale = True

    def take_finished(self) -> list[int]:
        """Take out those whose last output was sampled in the step just done, in the order of the list: their rows."""
        ends, rows, base, taking, step = self.ends, self.rows, self.base, self.taking, self.step
        due, finished = (step + 1) * ONE_STEP, []
        while ends and ends[0] < due:
            number = heappop(ends) & NUMBER_MASK
            row = rows.get(number)
            if row is not None and base[row] + self._last_pass[row] == step:
                del rows[number]
                self.base_sum -= base[row]
                taking[base[row] % len(taking)] -= self._grows
                finished.append(row)
        self.decoding -= len(finished)
        return finished

    def steps_to_finish(self) -> int:
        """How many steps until the first of the decodes finishes; there must be one."""
        ends = self.ends
        while True:
            end, row = ends[0] >> NUMBER_BITS, self.rows.get(ends[0] & NUMBER_MASK)
            if row is not None and self.base[row] + self._last_pass[row] == end:
                return end - self.step
            heappop(ends)  # it was preempted or held back since

    def blocks_now(self) -> int:
        """Blocks that the decodes take in the step to come."""
        return self.taking[self.step % len(self.taking)]

    def blocks_in(self, steps: int) -> int:
        """Blocks that the decodes take in the next `steps` steps."""
        taking = self.taking
        size = len(taking)
        first = self.step % size
        rounds = steps // size
        wrapped = first + steps - (rounds + 1) * size
        if wrapped <= 0:
            return rounds * self.decoding * self._grows + sum(taking[first : size + wrapped])
        return (rounds + 1) * self.decoding * self._grows - sum(taking[wrapped:first])

    def steps_within(self, free: int) -> int:
        """The most steps for which `free` blocks are enough; there must be a step for which they are not."""
        rounds, left = divmod(free, self.decoding)
        steps, size = rounds * len(self.taking), len(self.taking)
        while (taken := self.taking[(self.step + steps) % size]) <= left:
            left -= taken
            steps += 1
        return steps
