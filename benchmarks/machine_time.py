"""Time in units of what the machine does in it, for measurements on a machine whose speed changes under them.

A virtual machine shares caches and memory bandwidth with others. Work that fits into the nearest cache keeps its pace
to 2% there, while the same step of the engine takes 0.7 to 1.5 times its usual time, in patches of one to several
seconds, in processor time as well as by the wall. So fixed pieces of work, of the same kinds as what is measured, are
timed again and again in between, outside of the time that counts; their pace is the clock's. Kinds, since they do not
slow down alike: at times a decode of one sequence and a prefill took a tenth longer than usual, and one of 16 sequences
did not.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from dataclasses import replace
from statistics import fmean, median

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.step import Chunk
from pagesim.validate.load_tokens import private_tokens

SEQUENCES, CONTEXT = 16, 200
EVERY_S = 0.04
SMOOTHED = 5  # probes of a kind: with three kinds, over half a second
WARM_UP = 200  # of each kind


class Probe:
    """Steps of an engine of its own, computed over and over: a decode of one sequence, one of many, a prefill."""

    def __init__(self, model: str) -> None:
        self._engine = Engine(EngineConfig(model, num_blocks=512, max_model_len=512))
        for owner in range(SEQUENCES):
            prompt = private_tokens(owner, CONTEXT, self._engine.model.config.vocab_size, seed=0)
            self._engine.add_request(prompt, SamplingParams(temperature=0, max_tokens=9, ignore_eos=True))
        while any(sequence.num_computed < CONTEXT for sequence in self._engine.scheduler.running) or not (
            self._engine.scheduler.running
        ):
            self._engine.step()
        decode = self._engine.scheduler.schedule()
        one = decode.chunks[0]
        self._kinds = [
            replace(decode, chunks=chunks)
            for chunks in ((one,), decode.chunks, (Chunk(one.sequence, 0, CONTEXT, samples=True),))
        ]

    @property
    def num_kinds(self) -> int:
        """Of steps."""
        return len(self._kinds)

    def seconds(self, kind: int) -> float:
        """What a step of that kind takes now."""
        begin_s = time.perf_counter()
        self._engine.runner.run(self._kinds[kind])
        return time.perf_counter() - begin_s


class MachineTime:
    """A clock that goes by the pace of a probe: a second of it is a second at the usual pace. Sleep is by the wall.

    `wall_s`: the same time, uncorrected and without the probes.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        kinds = range(probe.num_kinds)
        self.usual_s = [median(probe.seconds(kind) for _ in range(WARM_UP)) for kind in kinds]
        self._slowness: list[deque[float]] = [deque([1.0], SMOOTHED) for _ in kinds]  # of each kind
        self._next = itertools.cycle(kinds)
        self._machine_s = self.wall_s = 0.0
        self._mark_s = self._probed_s = time.perf_counter()

    def now_s(self) -> float:
        """Seconds of the machine."""
        now_s = time.perf_counter()
        self._pass(now_s)
        if now_s - self._probed_s > EVERY_S:
            kind = next(self._next)
            self._slowness[kind].append(self._probe.seconds(kind) / self.usual_s[kind])
            self._mark_s = self._probed_s = time.perf_counter()
        return self._machine_s

    def sleep(self, seconds: float) -> None:
        """By the wall, whatever the pace."""
        self._pass(time.perf_counter())
        time.sleep(seconds)
        self._machine_s += seconds
        self.wall_s += seconds
        self._mark_s = time.perf_counter()

    def _pass(self, now_s: float) -> None:
        elapsed_s, self._mark_s = now_s - self._mark_s, now_s
        self.wall_s += elapsed_s
        self._machine_s += elapsed_s / fmean(map(median, self._slowness))
