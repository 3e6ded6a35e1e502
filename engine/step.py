"""One step, as the scheduler decided it: which tokens of which sequences are computed. Facts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pagesim.engine.sequence import Sequence


class Chunk(NamedTuple):
    """Tokens [start, start + num_tokens) of `sequence`, computed in one step. A decode is a chunk of one token.

    `samples`: the chunk reaches the last known token, so that its last logits give the next one. A named tuple, since
    one is made for each sequence in each step, and a frozen dataclass takes three times as long.
    """

    sequence: Sequence
    start: int
    num_tokens: int
    samples: bool

    @property
    def stop(self) -> int:
        """The sequence's length in the cache once the chunk is computed, in tokens."""
        return self.start + self.num_tokens

    @property
    def samplers(self) -> tuple[Sequence, ...]:
        """Who gets a token from the chunk's last logits: the sequence, and its forks, which start there."""
        return (self.sequence, *self.sequence.forks) if self.samples else ()


@dataclass(frozen=True, slots=True)
class Step:
    """`chunks`: in the order of the running list. `copies`: (source, target) blocks to copy before anything is written.

    `admitted`: sequences with the tokens each found in the prefix cache. The counts are those after scheduling and
    before outputs: `running` and `waiting` sequences, `blocks_used` of the cache manager's own blocks.
    """

    number: int
    chunks: tuple[Chunk, ...]
    copies: tuple[tuple[int, int], ...]
    admitted: tuple[tuple[Sequence, int], ...]
    preempted: tuple[Sequence, ...]
    running: int
    waiting: int
    scheduled_tokens: int
    blocks_used: int
