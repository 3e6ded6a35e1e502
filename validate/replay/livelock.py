"""A side that goes on for ever without computing anything is broken; a replay must end all the same."""

from __future__ import annotations

from pagesim.sim.serving.steptime import StepTime

MOST_IDLE = 1000  # a sound scheduler computes something at least in every other step


class Livelock:
    """Counts steps that compute nothing."""

    def __init__(self) -> None:
        self._idle = 0

    def check(self, tokens: int) -> None:
        """Of each step in turn. Raises AssertionError at the thousandth in a row that computes nothing."""
        self._idle = 0 if tokens else self._idle + 1
        assert self._idle < MOST_IDLE, f"{MOST_IDLE} steps in a row computed nothing, and somebody waits"


class LivelyStepTime:
    """A step-time model that watches whoever asks it."""

    def __init__(self, step_time: StepTime) -> None:
        self._step_time, self._livelock = step_time, Livelock()
        self.growth_s = step_time.growth_s

    def seconds(self, tokens: int, prefill_pairs: int, decode_contexts: int, sequences: int) -> float:
        """As the model says. Raises AssertionError as Livelock does."""
        self._livelock.check(tokens)
        return self._step_time.seconds(tokens, prefill_pairs, decode_contexts, sequences)
