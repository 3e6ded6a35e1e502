"""vLLM's scheduler as a replay drives one: what it decided is read off its own objects, as the recordings were.

Private to vLLM, and used all the same: the method that preempts is watched, since a step's output names its victims
without their order. One thing vLLM does not do is done for it: a request that could never fit is turned away, where
vLLM would let it wait, and everybody behind it, for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagesim.engine.errors import RequestError
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Chunk, Step
from pagesim.sim.serving.config import ServingConfig
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.machine import Machine
from pagesim.validate.replay.prompts import Prompts
from pagesim.validate.vllm.made import make_scheduler, model_output, request_maker
from pagesim.validate.vllm.rules import check_rules
from pagesim.validate.vllm.sums import Sums

SIDE = "vllm"


def vllm_machine(experiment: Experiment) -> Machine:
    """vLLM's scheduler alone. Raises UsageError on rules that it does not have."""
    check_rules(experiment.config)
    return Machine(VllmScheduling(experiment.config), experiment, Prompts(experiment.samples), side=SIDE)


class VllmScheduling:
    """Sequences are kept beside vLLM's requests, to say who is meant; vLLM never sees them."""

    def __init__(self, rules: ServingConfig) -> None:
        self.totals = Sums()
        self._rules = rules
        self._vllm = make_scheduler(rules)
        self._make_request = request_maker(rules)
        self._sequences: dict[str, Sequence] = {}
        self._scheduled: Any = None  # vLLM's account of the step that is being computed
        self._num_arrivals = 0
        self._preempted: list[str] = []
        self._watch_preemptions()

    @property
    def running(self) -> list[Sequence]:
        """In vLLM's order."""
        return [self._sequences[request.request_id] for request in self._vllm.running]

    @property
    def waiting(self) -> list[Sequence]:
        """In vLLM's order."""
        return [self._sequences[request.request_id] for request in self._vllm.waiting]

    @property
    def has_work(self) -> bool:
        """Whether anybody runs or waits."""
        return bool(self._vllm.get_num_unfinished_requests())

    def add(self, sequence: Sequence) -> None:
        """Let it wait. Raises RequestError on what could never fit."""
        slots, most = sequence.max_slots, self._rules.usable_tokens
        if slots > most:
            raise RequestError(f"request {sequence.id!r} needs {slots} tokens of cache; accepted: at most {most}")
        request = self._make_request(sequence, float(self._num_arrivals))
        self._num_arrivals += 1
        self._sequences[sequence.id] = sequence
        self._vllm.add_request(request)

    def schedule(self) -> Step:
        """vLLM's next step, and what can be read of it before its outputs are there."""
        self._preempted.clear()
        decided = self._scheduled = self._vllm.schedule()
        named = decided.preempted_req_ids or set()
        assert set(self._preempted) == named, f"vLLM preempted {self._preempted} and names {sorted(named)}"
        running, waiting = self._vllm.get_request_counts()
        pool = self._vllm.kv_cache_manager.block_pool
        step = Step(
            number=self.totals.steps,
            chunks=tuple(self._chunk(id, tokens) for id, tokens in decided.num_scheduled_tokens.items()),
            copies=(),
            admitted=tuple((self._sequences[id], found) for id, found in self._admitted().items()),
            preempted=tuple(self._sequences[id] for id in self._preempted),
            running=running,
            waiting=waiting,
            scheduled_tokens=decided.total_num_scheduled_tokens,
            blocks_used=pool.num_gpu_blocks - 1 - pool.get_num_free_blocks(),  # less the null block
        )
        self.totals.add_step(step)
        return step

    def finish_step(self, step: Step, sampled: Mapping[str, int]) -> list[Sequence]:
        """Hand vLLM the tokens, and say who is gone then."""
        running = self.running
        output = model_output(self._scheduled.num_scheduled_tokens, sampled)
        told = self._vllm.update_from_output(self._scheduled, output)
        self.totals.add_outputs(sampled, told)
        for id, token in sampled.items():
            self._sequences[id].tokens.append(token)
        return [sequence for sequence in running if sequence.id not in self._vllm.requests]

    def _watch_preemptions(self) -> None:
        preempt = self._vllm._preempt_request

        def watched(request: Any, *arguments: Any, **options: Any) -> Any:
            self._preempted.append(request.request_id)
            return preempt(request, *arguments, **options)

        self._vllm._preempt_request = watched

    def _chunk(self, id: str, num_tokens: int) -> Chunk:
        """vLLM has counted the step's tokens as computed already."""
        request = self._vllm.requests[id]
        self._sequences[id].num_computed = request.num_computed_tokens
        samples = request.num_computed_tokens == request.num_tokens
        return Chunk(self._sequences[id], request.num_computed_tokens - num_tokens, num_tokens, samples)

    def _admitted(self) -> dict[str, int]:
        """Who was let in, with the tokens found cached, in order of admission: at the end of the running list."""
        decided = self._scheduled
        found = {new.req_id: new.num_computed_tokens for new in decided.scheduled_new_reqs}
        known = decided.scheduled_cached_reqs
        for id, computed in zip(known.req_ids, known.num_computed_tokens, strict=True):
            if id in known.resumed_req_ids:
                found[id] = computed
        return {
            request.request_id: found[request.request_id]
            for request in self._vllm.running
            if request.request_id in found
        }
