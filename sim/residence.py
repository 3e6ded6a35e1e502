"""How long a request stays once it is placed: a linear function of its lengths."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.sim.errors import UsageError
from pagesim.sim.length_pairs import Moments
from pagesim.sim.trace import Floats, Trace


@dataclass(frozen=True, slots=True)
class Residence:
    """residence = prompt tokens * `prompt_s` + output tokens * `output_s`, in seconds a token."""

    prompt_s: float
    output_s: float

    def of(self, trace: Trace) -> Floats:
        """Seconds, float64 [requests]."""
        return trace.prompt_tokens * self.prompt_s + trace.output_tokens * self.output_s

    def mean_s(self, m: Moments) -> float:
        """E[residence]."""
        return m.p * self.prompt_s + m.o * self.output_s

    def mean_token_s(self, m: Moments) -> float:
        """E[length * residence], the token-seconds that a request occupies: (P + O)(a P + b O), multiplied out."""
        return m.pp * self.prompt_s + m.po * (self.prompt_s + self.output_s) + m.oo * self.output_s


def proportional(mean_s: float, m: Moments) -> Residence:
    """Proportional to the total length, `mean_s` in the mean: the note's. Raises UsageError unless mean_s > 0."""
    if not 0 < mean_s < float("inf"):
        raise UsageError(f"mean residence {mean_s:g} s; accepted: more than 0")
    return Residence(mean_s / (m.p + m.o), mean_s / (m.p + m.o))


def decoding(tokens_per_s: float) -> Residence:
    """One output token after the other at a fixed rate; prefill takes no time. Raises UsageError unless rate > 0."""
    if not 0 < tokens_per_s < float("inf"):
        raise UsageError(f"decode rate {tokens_per_s:g} tokens/s; accepted: more than 0")
    return Residence(0.0, 1 / tokens_per_s)
