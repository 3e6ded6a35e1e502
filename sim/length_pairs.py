"""How long requests are: prompt and output together, and the moments of the pair that turn a load into a rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.lengths import LengthDistribution
from pagesim.sim.trace import Floats, Ints


@dataclass(frozen=True, slots=True)
class Moments:
    """E[P], E[O], E[P^2], E[P O], E[O^2] of prompt P and output O, in tokens and tokens^2."""

    p: float
    o: float
    pp: float
    po: float
    oo: float

    @classmethod
    def of(cls, prompt: Ints, output: Ints, weight: Floats) -> Moments:
        """Sums over pairs, each with its probability."""
        p, o = prompt.astype(np.float64), output.astype(np.float64)
        return cls(*(float(weight @ column) for column in (p, o, p * p, p * o, o * o)))


class LengthPairs(Protocol):
    """Draws prompts and outputs, one random stream for each."""

    @property
    def label(self) -> str:
        """What it is, in words, truncation included."""
        ...

    def draw(self, prompts: np.random.Generator, outputs: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """(prompt, output) tokens, int64 [count] each, all >= 1."""
        ...

    def moments(self) -> Moments:
        """Exact moments of one request."""
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

    def moments(self) -> Moments:
        """Sums over the table of totals."""
        return Moments.of(*self._split(self.total.values), self.total.probabilities)

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

    def moments(self) -> Moments:
        """E[P O] = E[P] E[O]: they are independent."""
        p, o = self.prompt, self.output
        return Moments(p.mean, o.mean, p.second_moment, p.mean * o.mean, o.second_moment)


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

    def moments(self) -> Moments:
        """Means over the list."""
        return Moments.of(self.prompt, self.output, np.full(len(self.prompt), 1 / len(self.prompt)))
