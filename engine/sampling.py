"""From logits to tokens: greedy, temperature, top-k, top-p.

Randomness is a function of (seed, sample, position) and of nothing else, so that a request draws the same numbers
whatever else is in the batch, before and after a preemption. One number picks one token, by inverting the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagesim.engine.errors import RequestError

if TYPE_CHECKING:
    import torch

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


@dataclass(frozen=True, slots=True)
class Draw:
    """The token of one row of a batch is to be drawn: by which rules, and the number in [0, 1) that decides."""

    row: int
    sampling: SamplingParams
    uniform: float

    @property
    def cuts(self) -> bool:
        """Whether only the likeliest tokens are to be drawn from."""
        return self.sampling.top_k is not None or self.sampling.top_p < 1


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


def sample(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    """One token for each row of `logits`, [R, vocab]: drawn where `draws` say so, else the likeliest."""
    best = _likeliest(logits)
    # which way a row goes depends on its own parameters and not on the batch
    for way, cuts in ((_draw, False), (_draw_from_likeliest, True)):
        if chosen := [draw for draw in draws if draw.cuts == cuts]:
            rows = [draw.row for draw in chosen]
            best[rows] = way(logits[rows], chosen)
    tokens: list[int] = best.tolist()
    return tokens


def _likeliest(logits: torch.Tensor) -> torch.Tensor:
    """argmax of each row, the first of equals. On a CPU by numpy, whose search is over ten times as fast as torch's."""
    import torch

    if logits.device.type != "cpu":
        return logits.argmax(-1)
    return torch.from_numpy(logits.float().numpy().argmax(-1))


def _draw(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """From all tokens, in the order of their ids."""
    return _invert(_probabilities(logits, draws), draws)


def _draw_from_likeliest(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """From the likeliest token down: top-k and top-p keep a beginning of that order."""
    import torch

    vocab = logits.shape[1]
    limits = [min(draw.sampling.top_k or vocab, vocab) for draw in draws]
    ordered, tokens = logits.topk(max(limits), dim=-1)
    beyond = torch.arange(max(limits), device=logits.device) >= _column(limits, logits)
    probabilities = _probabilities(ordered.masked_fill(beyond, float("-inf")), draws)
    before = probabilities.cumsum(-1) - probabilities
    kept = before < _column([draw.sampling.top_p for draw in draws], logits)  # what comes before is not enough yet
    return tokens.gather(-1, _invert(probabilities * kept, draws)[:, None]).flatten()


def _probabilities(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    return (logits.double() / _column([draw.sampling.temperature for draw in draws], logits)).softmax(-1)


def _invert(weights: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """In each row the first place where the running sum of `weights` passes the row's share of the total."""
    import torch

    reached = weights.cumsum(-1)
    share = _column([draw.uniform for draw in draws], weights) * reached[:, -1:]
    place = (reached <= share).sum(-1)
    last = weights.shape[1] - 1 - (weights > 0).flip(-1).int().argmax(-1)  # the sum may be rounded past its end
    return torch.minimum(place, last)


def _column(values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.tensor(values, dtype=torch.float64, device=like.device)[:, None]
