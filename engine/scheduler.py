"""The scheduler: which tokens of which sequences the next step computes, and who makes room for whom.

A step walks those who run, then those who wait, by the rules of vLLM 0.29's scheduler in our words (SCHEDULER.md). It
is synchronous: a step's tokens are in before the next is scheduled. Left out: the model, the clock, swapping to the
host. Whatever the cache manager, the rules are the same; a contiguous one never runs out while a sequence runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from operator import attrgetter

from sortedcontainers import SortedKeyList

from pagesim.engine.cache_manager import CacheManager
from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import ConfigError, RequestError
from pagesim.engine.rejection import check_request
from pagesim.engine.sequence import FinishReason, Sequence, Status
from pagesim.engine.step import Chunk, Step
from pagesim.engine.totals import Totals


class Scheduler:
    """Call `schedule`, compute the step's chunks, call `finish_step` with the tokens sampled; again and again.

    Raises ConfigError if `token_budget` is too small to do without chunked prefill.
    """

    def __init__(self, config: EngineConfig, cache: CacheManager, max_model_len: int) -> None:
        if not config.chunked_prefill and config.token_budget < max_model_len:
            raise ConfigError(
                f"token_budget is {config.token_budget} without chunked_prefill; "
                f"accepted: at least max_model_len, {max_model_len}"
            )
        self.config = config
        self.cache = cache
        self.max_model_len = max_model_len
        # in order of arrival, the preempted too: who runs came before all who never did, and the last goes first
        self.waiting: SortedKeyList[Sequence, tuple[int, int]] = SortedKeyList(key=attrgetter("rank"))
        self.running: list[Sequence] = []
        self.sequences: dict[str, Sequence] = {}  # all that are not finished, forks to come included
        self.totals = Totals()
        self._most_tokens = config.long_prefill_threshold or config.token_budget  # of one sequence in one step
        self._keep_free = int(config.watermark * cache.num_blocks)
        self._num_arrivals = 0

    @property
    def has_work(self) -> bool:
        """Whether anybody runs or waits."""
        return bool(self.running or self.waiting)

    def add(self, *sequences: Sequence) -> None:
        """Let sequences, with their forks, wait: all of them or none. They can be admitted in the next step.

        An answer ends at `max_model_len` at the latest. Raises RequestError on what could never be served.
        """
        for sequence in sequences:
            check_request(sequence, self.config, self.cache, self.max_model_len)
        everyone = [each for sequence in sequences for each in (sequence, *sequence.forks)]
        for id, count in Counter(each.id for each in everyone).items():
            if id in self.sequences or count > 1:
                raise RequestError(f"request {id!r} is running or waiting already; accepted: an id of its own")
        for each in everyone:
            each.max_length = min(each.max_length, self.max_model_len)
            each.rank = (each.priority if self.config.policy == "priority" else 0, self._num_arrivals)
            self._num_arrivals += 1
            each.status = Status.PENDING
            self.sequences[each.id] = each
        for sequence in sequences:
            sequence.status = Status.WAITING
            self.waiting.add(sequence)

    def schedule(self) -> Step:
        """Decide the next step. Every sequence that gets tokens has slots for them afterwards.

        If it cannot be computed, all its sequences must be aborted: what it was to write is missing.
        """
        chunks: dict[str, Chunk] = {}
        preempted: list[Sequence] = []
        admitted: list[tuple[Sequence, int]] = []
        budget = self._serve_running(chunks, preempted)
        if not preempted:
            budget = self._admit_waiting(budget, chunks, admitted)
        step = Step(
            number=self.totals.steps,
            chunks=tuple(chunks.values()),
            copies=self.cache.take_copies(),
            admitted=tuple(admitted),
            preempted=tuple(preempted),
            running=len(self.running),
            waiting=len(self.waiting),
            scheduled_tokens=self.config.token_budget - budget,
            blocks_used=self.cache.blocks_used,
        )
        self.totals.add_step(step)
        return step

    def finish_step(
        self, step: Step, sampled: Mapping[str, int], stopped: Collection[str] = frozenset()
    ) -> list[Sequence]:
        """Take in a computed step: advance, append, fork, finish. Returns who finished, in order of the running list.

        `sampled`: the token of every sampler of every chunk that samples, by sequence id. `stopped`: ids of those
        whose token is their last.
        """
        finished: list[Sequence] = []
        for sequence, start, num_tokens, samples in step.chunks:
            sequence.num_computed = start + num_tokens
            if not samples:
                continue
            for sampler in (sequence, *self._start_forks(sequence)) if sequence.forks else (sequence,):
                sampler.tokens.append(sampled[sampler.id])
                if sampler.id in stopped or len(sampler.tokens) == sampler.max_length:
                    self.cache.free(sampler)
                    self._end(sampler, FinishReason.STOP if sampler.id in stopped else FinishReason.LENGTH)
                    finished.append(sampler)
        self.totals.sampled_tokens += len(sampled)
        if finished:
            self.running = [sequence for sequence in self.running if sequence.status is Status.RUNNING]
        return finished

    def abort(self, id: str) -> None:
        """End a sequence, with the forks that still wait inside it. Its step, if any, is finished, or given up.

        Raises RequestError if there is none of that id.
        """
        sequence = self.sequences.get(id)
        if sequence is None:
            raise RequestError(f"no request {id!r} is running or waiting; accepted: one that is")
        if sequence.status is Status.PENDING:
            self._drop_fork(sequence)
            return
        if sequence.status is Status.WAITING:
            self.waiting.remove(sequence)
        else:
            self.running.remove(sequence)
            self.cache.free(sequence)
        for each in (sequence, *sequence.forks):
            self._end(each, FinishReason.ABORT)

    def _serve_running(self, chunks: dict[str, Chunk], preempted: list[Sequence]) -> int:
        """Give those who run their next tokens, front to back. Returns what is left of the budget."""
        budget = self.config.token_budget
        index = 0
        while budget and index < len(self.running):
            sequence = self.running[index]
            start, known = sequence.num_computed, len(sequence.tokens)
            num_tokens = min(known - start, budget, self._most_tokens)  # never past max_model_len, where answers end
            stop = start + num_tokens
            while not self.cache.grow(sequence, start, stop):
                victim = self._preempt()
                preempted.append(victim)
                if victim.id in chunks:  # by priority it may stand further in front
                    budget += chunks.pop(victim.id).num_tokens
                    index -= 1
                if victim is sequence:
                    return budget  # vLLM's walk ends here, though one behind may need no block
            chunks[sequence.id] = Chunk(sequence, start, num_tokens, stop == known)
            budget -= num_tokens
            index += 1
        return budget

    def _admit_waiting(self, budget: int, chunks: dict[str, Chunk], admitted: list[tuple[Sequence, int]]) -> int:
        """Let in who waits, until the first that finds no room. Returns what is left of the budget."""
        if not self.waiting:
            return budget
        num_seats = self.config.max_num_seqs - sum(1 + len(sequence.forks) for sequence in self.running)
        while budget and self.waiting:
            sequence = self.waiting[0]
            num_seats -= 1 + len(sequence.forks)
            if num_seats < 0:
                break
            known = len(sequence.tokens)
            hit = self.cache.match(sequence)
            start = len(hit) * self.cache.block_size
            num_tokens = min(known - start, budget, self._most_tokens)
            if num_tokens < known - start and not self.config.chunked_prefill:
                break
            stop = start + num_tokens
            room = known if self.config.reserve_full_isl else stop
            if not self.cache.admit(sequence, hit, stop, room, self._keep_free if self.running else 0):
                break
            self.running.append(self.waiting.pop(0))
            sequence.status = Status.RUNNING
            sequence.num_computed = start
            chunks[sequence.id] = Chunk(sequence, start, num_tokens, stop == known)
            admitted.append((sequence, start))
            budget -= num_tokens
            if self.config.prefix_caching:
                self.totals.add_look_up(known, start, is_return=sequence.num_preemptions > 0)
        return budget

    def _preempt(self) -> Sequence:
        """Take out who ranks last, under fcfs the last of the list. It keeps its tokens and computes them again."""
        victim = max(self.running, key=attrgetter("rank"))
        self.running.remove(victim)
        self.cache.free(victim)
        victim.status = Status.WAITING
        victim.most_computed = max(victim.most_computed, victim.num_computed)
        victim.num_computed = 0
        victim.num_preemptions += 1
        self.waiting.add(victim)
        return victim

    def _start_forks(self, parent: Sequence) -> tuple[Sequence, ...]:
        """From here on they run for themselves, behind the parent. The blocks of its prompt are theirs too."""
        forks, parent.forks = parent.forks, ()
        for fork in forks:
            self.cache.fork(parent, fork)
            fork.num_computed = parent.num_computed
            fork.status = Status.RUNNING
        behind = self.running.index(parent) + 1
        self.running[behind:behind] = forks
        return forks

    def _drop_fork(self, fork: Sequence) -> None:
        for sequence in self.sequences.values():
            sequence.forks = tuple(each for each in sequence.forks if each is not fork)
        self._end(fork, FinishReason.ABORT)

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        sequence.status = Status.FINISHED
        sequence.finish_reason = reason
        del self.sequences[sequence.id]
