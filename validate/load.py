"""Puts a load on the engine in real time: requests arrive when they are due, and the time of every token is noted.

Latencies count from when a request was due, not from when the engine came round to it, so that a busy engine cannot
hide them. Everything runs to its end. The arrivals may be made as they are asked for. Left out: a network, and
tokenizers; prompts are token ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pagesim.engine.engine import Engine
from pagesim.engine.outputs import NewToken, StepOutput
from pagesim.engine.sampling import SamplingParams
from pagesim.validate.load_tokens import private_tokens

WARM_UP_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request to come. `arrival_s`: on the load's own clock, of which only the differences count. `fork`: whether its
    `n` samples share their prompt's blocks. `priority`: lower goes first, under that policy.
    """

    arrival_s: float
    prompt: list[int]
    output_tokens: int
    salt: str | None = None
    adapter: str | None = None
    n: int = 1
    fork: bool = False
    priority: int = 0


@dataclass(slots=True)
class LoadLog:
    """What came of a load. A sample counts by itself wherever n > 1.

    `duration_s`: from the first arrival to the end. `rejected`: requests that are too long, prompt and output together,
    to be served to their end. `ttft_s` and `e2e_s` (from when it was due) and `tpot_s` of each sample; `itl_s`:
    every gap between two tokens. TPOT = (last - first) / (n - 1).
    """

    ttft_s: list[float] = field(default_factory=list)
    itl_s: list[float] = field(default_factory=list)
    tpot_s: list[float] = field(default_factory=list)
    e2e_s: list[float] = field(default_factory=list)
    requests: int = 0
    rejected: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    duration_s: float = 0.0


@dataclass(slots=True)
class _Sample:
    due_s: float
    first_s: float
    last_s: float
    num_tokens: int = 1


def batch_load(num_requests: int, prompt_tokens: int, output_tokens: int, vocab_size: int, seed: int) -> list[Arrival]:
    """All arrive at once, of one size, with prompts that share nothing."""
    prompts = (private_tokens(owner, prompt_tokens, vocab_size, seed) for owner in range(num_requests))
    return [Arrival(0.0, prompt, output_tokens) for prompt in prompts]


def warm_up(engine: Engine) -> None:
    """Two short requests at once, to their ends: kernels are compiled, and libraries have their memory."""
    num_tokens = max(1, min(WARM_UP_TOKENS, engine.max_model_len - 2))
    prompts = [private_tokens(owner, num_tokens, engine.model.config.vocab_size, seed=-1) for owner in range(2)]
    engine.generate(prompts, SamplingParams(temperature=0, max_tokens=2, ignore_eos=True))


def run_load(
    engine: Engine,
    arrivals: Iterable[Arrival],
    advance: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadLog:
    """Serve `arrivals`, which are in order of time, each to its full output. `advance(1)`: a request has ended.

    `clock` must be the engine's, and `sleep` let it go on. Raises MemoryBudgetError if memory runs out.
    """
    coming = iter(arrivals)
    following = next(coming, None)
    run = _Run(engine, advance, clock, 0.0 if following is None else following.arrival_s)
    while following is not None or engine.has_work:
        while following is not None and run.wait_s(following) <= 0:
            run.add(following)
            following = next(coming, None)
        if engine.has_work:
            run.note(engine.step())
        elif following is not None:
            sleep(max(0.0, run.wait_s(following)))
    run.end()
    return run.log


class _Run:
    """The requests on their way. The first arrival is now."""

    def __init__(
        self, engine: Engine, advance: Callable[[int], None], clock: Callable[[], float], first_arrival_s: float
    ) -> None:
        self.log = LoadLog()
        self._engine = engine
        self._clock = clock
        self._advance = advance
        self._due_s: dict[str, float] = {}
        self._samples: dict[tuple[str, int], _Sample] = {}
        self._began_s = clock()
        self._offset_s = self._began_s - first_arrival_s  # from the load's clock to the engine's

    def wait_s(self, arrival: Arrival) -> float:
        """Until it is due."""
        return self._offset_s + arrival.arrival_s - self._clock()

    def end(self) -> None:
        """All have ended."""
        self.log.duration_s = self._clock() - self._began_s

    def add(self, arrival: Arrival) -> None:
        """A request that is due."""
        if len(arrival.prompt) + arrival.output_tokens > self._engine.max_model_len:
            self.log.rejected += 1
            self._advance(1)
            return
        sampling = SamplingParams(
            temperature=0, max_tokens=arrival.output_tokens, ignore_eos=True, n=arrival.n, fork=arrival.fork
        )
        id = self._engine.add_request(
            arrival.prompt, sampling, salt=arrival.salt, adapter=arrival.adapter, priority=arrival.priority
        )
        self._due_s[id] = self._offset_s + arrival.arrival_s
        self.log.requests += 1
        self.log.prompt_tokens += len(arrival.prompt)

    def note(self, output: StepOutput) -> None:
        """A step's tokens."""
        self.log.output_tokens += len(output.tokens)
        for token in output.tokens:
            self._note_token(token, output.time_s)
        for finished in output.finished:
            del self._due_s[finished.request_id]
            self._advance(1)

    def _note_token(self, token: NewToken, now_s: float) -> None:
        key = token.request_id, token.index
        sample = self._samples.get(key)
        if sample is None:
            sample = self._samples[key] = _Sample(self._due_s[token.request_id], now_s, now_s)
            self.log.ttft_s.append(now_s - sample.due_s)
        else:
            self.log.itl_s.append(now_s - sample.last_s)
            sample.last_s = now_s
            sample.num_tokens += 1
        if token.finish_reason is not None:
            self.log.e2e_s.append(now_s - sample.due_s)
            if sample.num_tokens > 1:
                self.log.tpot_s.append((now_s - sample.first_s) / (sample.num_tokens - 1))
            del self._samples[key]
