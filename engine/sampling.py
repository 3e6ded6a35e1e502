"""What a request asks of sampling, and the number that decides at each of its positions.

Randomness is a function of (seed, sample, position) and of nothing else, so that a request draws the same numbers
whatever else is in the batch, before and after a preemption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pagesim.engine.errors import RequestError

MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What a request asks for.

    `temperature` 0 is greedy. `top_k` keeps the k likeliest tokens, `top_p` the fewest whose probabilities reach p, in
    this order. `seed`: unless given, the engine derives one. `n`: continuations of the prompt, as independent requests,
    or with `fork` as sequences that share the prompt's blocks. Raises RequestError on a value that makes no sense.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int = 16
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = field(default_factory=frozenset)
    n: int = 1
    fork: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop_token_ids", frozenset(self.stop_token_ids))
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise RequestError(f"temperature is {self.temperature}; accepted: 0 (greedy) or a finite number above it")
        if self.top_k is not None and self.top_k < 1:
            raise RequestError(f"top_k is {self.top_k}; accepted: at least 1, or None for all tokens")
        if not 0 < self.top_p <= 1:
            raise RequestError(f"top_p is {self.top_p}; accepted: above 0, up to 1")
        if self.max_tokens < 1:
            raise RequestError(f"max_tokens is {self.max_tokens}; accepted: at least 1")
        if self.n < 1:
            raise RequestError(f"n is {self.n}; accepted: at least 1")


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on these two alone: 53 bits of splitmix64 (Steele et al., 2014)."""
    return (_mix(_mix(seed & MASK) ^ position) >> 11) * 2.0**-53


def sample_seed(seed: int, sample: int) -> int:
    """The seed of one of a request's `n` samples."""
    return _mix(_mix(seed & MASK) ^ sample)


def _mix(state: int) -> int:
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)
