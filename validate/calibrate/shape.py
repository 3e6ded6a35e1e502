"""The shape of a batch, as far as the step-time model sees it, and a time that was measured for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pagesim.engine.step import Step
from pagesim.sim.experiments.work import Work
from pagesim.sim.serving.steptime import StepTime, pairs


class Chunk(NamedTuple):
    """Tokens of a prompt, and how many stand before them."""

    tokens: int
    behind: int


@dataclass(frozen=True, slots=True)
class Shape:
    """`decodes` sequences that compute one token of their answers, `contexts` keys of all of them together, each
    token's own among them, and chunks of prompts.
    """

    decodes: int
    contexts: int
    chunks: tuple[Chunk, ...] = ()

    @classmethod
    def of(cls, step: Step) -> Shape:
        """Of a step that the engine scheduled."""
        decodes = contexts = 0
        chunks = []
        for sequence, start, tokens, samples in step.chunks:
            if tokens == 1 and samples and start >= sequence.num_prompt:
                decodes += 1
                contexts += start + 1
            else:
                chunks.append(Chunk(tokens, start))
        return cls(decodes, contexts, tuple(chunks))

    @property
    def tokens(self) -> int:
        """All that are computed."""
        return self.decodes + sum(chunk.tokens for chunk in self.chunks)

    @property
    def prefill_pairs(self) -> int:
        """Pairs of query and key over the chunks."""
        return sum(pairs(chunk.behind, chunk.tokens) for chunk in self.chunks)

    @property
    def sequences(self) -> int:
        """How many compute anything."""
        return self.decodes + len(self.chunks)

    @property
    def work(self) -> Work:
        """In the terms of a model that has a price for contexts, and one for a prefill."""
        return Work(1, self.tokens, self.prefill_pairs, self.sequences, self.contexts, int(bool(self.chunks)))

    def seconds(self, step_time: StepTime) -> float:
        """What a model says of it."""
        return step_time.seconds(self.tokens, self.prefill_pairs, self.contexts, self.sequences)


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One batch and how long it took. `group`: what was measured together, and is fitted on or held out together."""

    shape: Shape
    seconds: float
    group: str
    held_out: bool
