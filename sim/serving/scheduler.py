"""One step of vLLM 0.29's scheduler: who computes how many tokens, who is put back, who is let in.

Source of the rules: vLLM 0.29, v1 scheduler, synchronous. A step in which every decode gets its token and nobody must
go is done in a time that does not depend on how many decode; any other is walked, sequence by sequence (`walk`).
"""

from __future__ import annotations

from enum import IntEnum

from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.forking_pool import ForkingPool
from pagesim.sim.serving.host import Host
from pagesim.sim.serving.pool import BlockPool
from pagesim.sim.serving.record import Record, pack_admission, pack_chunk
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.running import Running
from pagesim.sim.serving.waiting import Waiting


class Stop(IntEnum):
    """Why a step admitted nobody else."""

    NOBODY_WAITS = 0
    NO_BLOCKS = 1
    NO_SEQUENCE = 2
    NO_BUDGET = 3
    PREEMPTED = 4


NOBODY_WAITS, NO_BLOCKS, NO_SEQUENCE, NO_BUDGET, PREEMPTED = Stop


class Scheduler:
    """Holds the state of a run between steps; `schedule` leaves behind what the step computes.

    `tokens`, `prefill_pairs`, `contexts` and `sequences` are as in `StepTime.seconds`; `decodes` of the sequences get a
    token of their answer; among them `late` (rows) got none in the step before. `completing`: rows whose prompt, or
    recomputation, ends with this step, so that it samples a token of theirs. `quiet`: nothing but decoding happened, so
    the step may be repeated. `host`: where victims go that are swapped out; `swapped`: those who are there. `forks`:
    the pool, if samples share their prompt. `restless`: the next step is more than decoding, whatever comes. `blocks`:
    taken for decodes. `stop`: why nobody else was admitted. `asked`: blocks that the head of the queue asked for in
    vain. `again_tokens`, `again_pairs`: of all, what had been computed before.
    """

    def __init__(
        self,
        config: ServingConfig,
        requests: Requests,
        running: Running,
        waiting: Waiting,
        pool: BlockPool,
        record: Record,
        host: Host | None = None,
        forks: ForkingPool | None = None,
    ) -> None:
        self.config, self.requests, self.running, self.waiting = config, requests, running, waiting
        self.pool, self.record = pool, record
        self.forks, self.restless = forks, False
        self.host, self.swapped = host, {} if host is None else host.tokens
        self.cap = config.long_prefill_threshold or config.max_model_len
        self.completing: list[int] = []
        self.late: list[int] = []
        self.held_back: list[int] = []  # rows of decodes that the last step gave nothing
        self.tokens = self.prefill_pairs = self.contexts = self.decodes = self.sequences = self.blocks = 0
        self.quiet = True
        self.stop = NOBODY_WAITS
        self.asked = self.again_tokens = self.again_pairs = 0
        self._admissions = 0
        self._watermark = config.watermark_blocks * (1 if config.allocator == PAGED else config.block_size)
        self.most_decodes = min(config.max_num_seqs, config.token_budget)

    def schedule(self, now: float, head: int | None) -> None:
        """Schedule the step that starts `now`, when `head` is the first of the queue."""
        running = self.running
        decodes = self.tokens = self.decodes = self.sequences = running.decoding
        self.contexts = decodes * (running.step + 1) - running.base_sum
        self.prefill_pairs = 0
        self.quiet = True
        self.asked = self.again_tokens = self.again_pairs = 0
        self.completing = []
        budget = self.config.token_budget - decodes
        self.blocks = blocks = running.blocks_now()
        if running.prefilling or blocks > self.pool.free or self.restless:
            self.quiet = False
            left = self._busy_step(now, budget)
            if left is None:
                self.stop = PREEMPTED
                return
            budget = left
        elif blocks:
            self.pool.take(blocks)
        self._admit(now, budget, head)

    def _busy_step(self, now: float, budget: int) -> int | None:
        """A step in which more than decoding happens to those that run. The budget left; None: someone had to go."""
        chunks = self._chunks(budget)
        due = 0 if self.forks is None else self.forks.due
        if chunks is None or self.blocks + due + sum(missing for *_, missing in chunks) > self.pool.free:
            from pagesim.sim.serving.walk import Walk

            return Walk(self, now).run()
        self.late, self.held_back, self.restless = self.held_back, [], False
        self.pool.take(self.blocks)
        if self.forks is not None:
            self.forks.write_all()
        for number, before, tokens, _ in chunks:
            row = self.running.rows[number]
            self.pool.extend(row, before, before + tokens)
            self.compute(number, row, before, tokens)
            budget -= tokens
        return budget

    def _chunks(self, budget: int) -> list[tuple[int, int, int, int]] | None:
        """(number, tokens before, tokens, blocks missing) of the prefills that go on, when all decodes are served.

        The order of the list has no say. Nobody was let in behind a sequence but with budget that it left, and what a
        sequence wants of a step never grows: so the budget is enough for all but the last, who takes what there is.
        None: it is not, since one that was let in has become several.
        """
        chunks, last = [], next(reversed(self.running.rows))
        for number, before in self.running.prefilling.items():
            wanted = min(self.requests.known[self.running.rows[number]] - before, self.cap)
            tokens = min(wanted, budget)
            if tokens < wanted and number != last and self.forks is not None:
                return None
            assert tokens == wanted or number == last, (number, tokens, wanted, self.running.rows)
            if tokens:
                chunks.append((number, before, tokens, self.pool.missing(before, before + tokens)))
            budget -= tokens
        return chunks

    def compute(self, number: int, row: int, before: int, tokens: int) -> None:
        """Book a chunk of a prompt, or of a recomputation: `tokens` behind `before`."""
        requests, running = self.requests, self.running
        known, computed = requests.known[row], before + tokens
        self.tokens += tokens
        self.sequences += 1
        if computed == known:
            if before:
                running.prefilling.pop(number, None)
            running.decode(number, row, running.step + 1 - known)
            self.completing.append(row)
            if self.forks is not None:
                self._fork(self.forks, number, row, known)
        else:
            running.prefilling[number] = computed
        if tokens == 1 and computed == known > requests.prompt[row]:
            self.contexts += computed  # one more token of its answer is a decode, even of one that just came back
        else:
            self.prefill_pairs += tokens * before + tokens * (tokens + 1) // 2
        again = 0
        if requests.seen and row in requests.seen:
            seen = requests.seen[row]
            again = max(0, min(computed, seen) - before)
            requests.seen[row] = max(computed, seen)
            self.again_tokens += again
            self.again_pairs += again * before + again * (again + 1) // 2
        self.record.chunks += pack_chunk(running.step, row, computed, known, again)

    def _fork(self, forks: ForkingPool, number: int, row: int, known: int) -> None:
        """The prompt of a group is computed: its other samples stand behind the one who did it, and sample too."""
        running = self.running
        followers = forks.fork(row, known)
        for place, follower in enumerate(followers, number + 1):
            running.rows[place] = follower
            running.decode(place, follower, running.step + 1 - known)
            self.completing.append(follower)
            self.record.chunks += pack_chunk(running.step, follower, known, known, 0)
        if followers:
            in_order = sorted(running.rows.items())
            running.rows.clear()
            running.rows.update(in_order)
            self.restless = self.restless or forks.due > 0

    def _admit(self, now: float, budget: int, row: int | None) -> None:
        """Let requests in from the front of the queue, `row`, up to the first that cannot be placed."""
        waiting, pool, config, rows, cap = self.waiting, self.pool, self.config, self.running.rows, self.cap
        swapped, forks, left, seats = self.swapped, self.forks, config.max_num_seqs - len(rows), 1
        if forks is not None:  # samples must all be able to decode in one step: what is let in may become several
            left = self.most_decodes - len(rows) - forks.unforked
        while row is not None:
            if forks is not None:
                seats = forks.seats(row)
            if left < seats or not budget:
                self.stop = NO_BUDGET if left >= seats else NO_SEQUENCE
                return
            known = self.requests.known[row]
            kept = swapped.get(row, 0) if swapped else 0
            hit = pool.find(row, known) if config.prefix_caching and not kept else 0
            before = kept or hit
            tokens = known - before if known - before <= cap else cap
            if tokens > budget:
                if not config.chunked_prefill:
                    self.stop = NO_BUDGET
                    return
                tokens = budget
            computed = before + tokens
            whole = known if config.reserve_full_isl else computed
            free = pool.free
            if not pool.place(row, whole, hit, computed, self._watermark if rows else 0):
                self.stop = NO_BLOCKS
                self.asked = pool.asked(row, whole, hit)
                return
            waiting.take()
            if kept and self.host is not None:
                self.host.take(row)
            self.quiet = False
            number = self._admissions + 1
            self._admissions += seats
            rows[number] = row
            self.record.admissions += pack_admission(
                self.running.step, row, hit, 0 if kept else known, free - pool.free
            )
            if forks is not None:
                forks.unforked += seats - 1
                for follower in forks.followers.get(row, ()):
                    self.record.admissions += pack_admission(self.running.step, follower, 0, 0, 0)
            self.compute(number, row, before, tokens)
            budget -= tokens
            left -= seats
            row = waiting.head(now)
        self.stop = NOBODY_WAITS if left and budget else NO_BUDGET if left else NO_SEQUENCE
