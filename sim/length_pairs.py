"""How long requests are: prompt and output together, and the moments of the pair that turn a load into a rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.lengths import LengthDistribution, weighted_sum
from pagesim.sim.trace import Floats, Ints


@dataclass(frozen=True, slots=True)
class Moments:
    """E[P], E[O], E[P^2], E[P O], E[O^2] of prompt P and output O, in tokens and tokens^2, of the requests that can be
    served: P + O within a limit. They are a `share` of all; the others are rejected, and offer no load.
    """

    p: float
    o: float
    pp: float
    po: float
    oo: float
    share: float = 1.0

    @classmethod
    def of(cls, prompt: Ints, output: Ints, weight: Floats, limit: int) -> Moments:
        """Sums over pairs, each with its probability. Raises UsageError if none is within `limit` tokens."""
        weight = np.where(prompt + output <= limit, weight, 0.0)
        p, o = prompt.astype(np.float64), output.astype(np.float64)
        return cls.of_sums([weighted_sum(column, weight) for column in (p * 0 + 1, p, o, p * p, p * o, o * o)], limit)

    @classmethod
    def of_sums(cls, sums: list[float], limit: int) -> Moments:
        """From E[1], E[P], E[O], E[P^2], E[P O], E[O^2], each over the requests within `limit` alone."""
        share, *rest = sums
        if not share > 0:
            raise UsageError(f"no request has {limit} tokens or less, prompt and output; accepted: a larger limit")
        p, o, pp, po, oo = (value / share for value in rest)
        return cls(p, o, pp, po, oo, min(share, 1.0))


class LengthPairs(Protocol):
    """Draws prompts and outputs, one random stream for each."""

    @property
    def label(self) -> str:
        """What it is, in words, truncation included."""
        ...

    def draw(self, prompts: np.random.Generator, outputs: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """(prompt, output) tokens, int64 [count] each, all >= 1."""
        ...

    def moments(self, limit: int) -> Moments:
        """Exact moments of a request of at most `limit` tokens. Raises UsageError if there are none."""
        ...


@dataclass(frozen=True, slots=True)
class TotalLengths:
    """Draw the total, and give the prompt a fixed share of it. A total under 2 becomes 2: one token of each kind."""

    total: LengthDistribution
    prompt_share: float

    def __post_init__(self) -> None:
        if not 0 < self.prompt_share < 1:
            raise UsageError(f"prompt share {self.prompt_share:g}; accepted: more than 0 and less than 1")

    @property
    def label(self) -> str:
        """The total's own, and the share."""
        return f"total {self.total.label}; {self.prompt_share:.0%} of it prompt"

    def draw(self, prompts: np.random.Generator, outputs: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """Only the stream of prompts is used: the output follows."""
        return self._split(self.total.draw(prompts, count))

    def moments(self, limit: int) -> Moments:
        """Sums over the table of totals."""
        return Moments.of(*self._split(self.total.values), self.total.probabilities, limit)

    def _split(self, total: Ints) -> tuple[Ints, Ints]:
        total = np.maximum(total, 2)
        prompt = np.clip(np.rint(total * self.prompt_share).astype(np.int64), 1, total - 1)
        return prompt, total - prompt


@dataclass(frozen=True, slots=True)
class IndependentLengths:
    """Draw prompt and output each from a distribution of its own. Together they may pass any context limit."""

    prompt: LengthDistribution
    output: LengthDistribution

    @property
    def label(self) -> str:
        """Both."""
        return f"prompt {self.prompt.label}; output {self.output.label}"

    def draw(self, prompts: np.random.Generator, outputs: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """One stream each."""
        return self.prompt.draw(prompts, count), self.output.draw(outputs, count)

    def moments(self, limit: int) -> Moments:
        """Sums over prompts; for each, over the outputs that still fit: running sums of the table of outputs."""
        p, weight = self.prompt.values.astype(np.float64), self.prompt.probabilities
        o, chance = self.output.values.astype(np.float64), self.output.probabilities
        fitting = np.searchsorted(self.output.values, limit - self.prompt.values, side="right")
        one, first, second = (np.concatenate([[0.0], np.cumsum(chance * o**k)])[fitting] for k in range(3))
        columns = (one, p * one, first, p * p * one, p * first, second)
        return Moments.of_sums([weighted_sum(column, weight) for column in columns], limit)


@dataclass(frozen=True, slots=True, eq=False)
class ListedLengths:
    """Draw whole pairs from a list, with replacement, so that prompts keep the outputs they came with.

    `prompt`, `output`: int64 [pairs], >= 1. `label` names the list.
    """

    prompt: Ints
    output: Ints
    label: str

    def draw(self, prompts: np.random.Generator, outputs: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """Only the stream of prompts is used: the output comes with it."""
        rows = prompts.integers(len(self.prompt), size=count)
        return self.prompt[rows], self.output[rows]

    def moments(self, limit: int) -> Moments:
        """Means over the list."""
        return Moments.of(self.prompt, self.output, np.full(len(self.prompt), 1 / len(self.prompt)), limit)
