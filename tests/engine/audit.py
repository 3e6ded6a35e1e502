"""A pool of slots that remembers what was written: does every sequence find its own past in the slots it is given?"""

from __future__ import annotations

from collections.abc import Iterable

from pagesim.engine.cache_manager import CacheManager
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step


class SlotMemory:
    """Slot to what its K and V depend on: the token, and every token, salt and adapter before it."""

    def __init__(self, cache: CacheManager) -> None:
        self.cache = cache
        self.written: dict[int, int] = {}

    def run(self, step: Step) -> None:
        """Do what a model would: copies, then all writes, then the reads of every chunk."""
        self.copy(step.copies)
        for sequence, start, num_tokens, _ in step.chunks:
            self.write(sequence, start, start + num_tokens)
        for chunk in step.chunks:
            self.read(chunk.sequence, chunk.stop)

    def copy(self, pairs: Iterable[tuple[int, int]]) -> None:
        pairs = list(pairs)
        targets = [target for _, target in pairs]
        assert len(set(targets)) == len(targets) and not set(targets) & {source for source, _ in pairs}
        size = self.cache.row_tokens
        for source, target in pairs:
            for offset in range(size):
                if source * size + offset in self.written:
                    self.written[target * size + offset] = self.written[source * size + offset]

    def write(self, sequence: Sequence, start: int, stop: int) -> None:
        states = states_of(sequence)
        for position in range(start, stop):
            self.written[self.slot(sequence, position)] = states[position]

    def slot(self, sequence: Sequence, position: int) -> int:
        """Where a token lies, by what the cache wrote into the sequence."""
        if sequence.first_slot is not None:
            return sequence.first_slot + position
        size = self.cache.block_size
        return sequence.block_table[position // size] * size + position % size

    def read(self, sequence: Sequence, stop: int) -> None:
        slots = [self.slot(sequence, position) for position in range(stop)]
        assert [self.written.get(slot) for slot in slots] == states_of(sequence)[:stop], sequence


def states_of(sequence: Sequence) -> list[int]:
    state = hash((sequence.salt, sequence.adapter))
    states = []
    for token in sequence.tokens:
        state = hash((state, token))
        states.append(state)
    return states
