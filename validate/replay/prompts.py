"""Literal token ids for a trace that only says which prompts share text."""

from __future__ import annotations

import numpy as np

from pagesim.engine.sampling import uniform
from pagesim.sim.trace import Trace
from pagesim.validate.load_tokens import private_tokens, shared_tokens


class Prompts:
    """Token ids, by row of `trace`. Token j of a prompt is a function of its hash id there and the place within it.

    Without a vocabulary ids and places are written out as numbers, so that no two tokens are equal by chance. With one
    they are hashed into it: two different texts then agree in one token once in `vocab_size` times, and in a whole
    block of them practically never.
    """

    def __init__(self, trace: Trace, vocab_size: int | None = None) -> None:
        self.trace, self._vocab = trace, vocab_size
        self._longest = int(trace.prompt_tokens.max(initial=1))
        if trace.hash_ids is not None:
            self._numbers = np.unique(trace.hash_ids.values, return_inverse=True)[1].reshape(-1)

    def of(self, row: int) -> list[int]:
        """The prompt of a request."""
        trace, size = self.trace, int(self.trace.prompt_tokens[row])
        if trace.hash_ids is None or trace.hash_block_tokens is None:
            return self._private(row, size)
        each = trace.hash_block_tokens
        if self._vocab is not None:
            return shared_tokens(trace.hash_ids[row], each, size, self._vocab)
        numbers = self._numbers[trace.hash_ids.offsets[row] : trace.hash_ids.offsets[row + 1]]
        tokens: list[int] = (numbers[:, None] * each + np.arange(each)).ravel()[:size].tolist()
        return tokens

    def output(self, row: int, position: int) -> int:
        """A made-up token of an answer, which nobody else's is: without a vocabulary a negative number."""
        if self._vocab is not None:
            return int(uniform(row, position) * self._vocab)
        return -1 - (row * 2**40 + position)

    def _private(self, row: int, size: int) -> list[int]:
        if self._vocab is not None:
            return private_tokens(row, size, self._vocab, seed=0)
        return list(range(row * self._longest, row * self._longest + size))
