"""The simulator's pool with prefix caching, with names for its blocks, so that one can say which are where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.prefix_pool import LOST, PrefixPool
from pagesim.sim.trace import HashIds, Ints, Labels, Trace

PLAIN = "-"  # a block without a hash: nobody can tell it from another
COPY = "'"


class NamedPool(PrefixPool):
    """A PrefixPool whose hashed blocks are called by all the text up to their end: AB is block B behind block A.

    AB' is a second copy of the same; when the first is forgotten, the copy is AB. With a salt: x:AB.
    """

    def __init__(self, usable_blocks: int, block_size: int, prompts: Sequence[Prompt]) -> None:
        super().__init__(usable_blocks, block_size, HashChains(trace_of(prompts, block_size), block_size))
        self._prompts = prompts
        self._names: dict[int, str] = {}  # by key

    def find(self, row: int, tokens: int) -> int:
        """Also learns what the blocks of this prompt are called."""
        for key, name in zip(self._chain(row).tolist(), self._prompts[row].blocks, strict=True):
            self._names[key] = name
        return super().find(row, tokens)

    @property
    def free_list(self) -> list[str]:
        """Free blocks in the order in which they will be taken."""
        self._settle()
        cached = self._queue.slots()
        return [PLAIN] * (self.free - len(cached)) + self._called(cached)

    def table(self, row: int, blocks: int) -> list[str]:
        """The blocks of a sequence that has so many."""
        self._settle()
        hashed = self._called(self._table[row])
        return hashed + [PLAIN] * (blocks - len(hashed))

    @property
    def references(self) -> dict[str, int]:
        """Of every hashed block that somebody holds, by how many sequences, in order of name."""
        self._settle()
        held = np.flatnonzero(self._references)
        return dict(sorted(zip(self._called(held), self._references[held].tolist(), strict=True)))

    @property
    def cached_names(self) -> set[str]:
        """Every block that a look-up could find."""
        self._settle()
        return {self._names[int(key)] for key in np.flatnonzero(self._slot >= 0)}

    def _called(self, slots: Ints) -> list[str]:
        return [self._name(slot) for slot in slots.tolist()]

    def _name(self, slot: int) -> str:
        key = int(self._key[slot])
        assert key != LOST, "no answer is longer than one token, which has no slot"
        same = [int(self._slot[key]), *self._copies.get(key, [])]
        return self._names[key] + COPY * same.index(slot)


class Prompt:
    """A prompt of an exercise: `text`, a letter a full block; then `tail` tokens like no others; `salt` or ''."""

    __slots__ = ("salt", "tail", "text")

    def __init__(self, text: str, tail: int, salt: str = "") -> None:
        self.text, self.tail, self.salt = text, tail, salt

    @property
    def blocks(self) -> list[str]:
        """What its full blocks are called."""
        lead = f"{self.salt}:" if self.salt else ""
        return [lead + self.text[:end] for end in range(1, len(self.text) + 1)]

    def tokens(self, block_size: int) -> int:
        """How long it is."""
        return len(self.text) * block_size + self.tail

    def __str__(self) -> str:
        return f"{self.salt + ':' if self.salt else ''}{self.text}{self.tail or ''}"


def trace_of(prompts: Sequence[Prompt], block_size: int) -> Trace:
    """The prompts as a trace has them: a hash id for each block, a salt. Every answer is one token."""
    own = iter(range(1000, 1000 + len(prompts)))
    ids = [[ord(letter) for letter in each.text] + [next(own)] * bool(each.tail) for each in prompts]
    return Trace(
        np.zeros(len(prompts)),
        np.array([each.tokens(block_size) for each in prompts], np.int64),
        np.ones(len(prompts), np.int64),
        hash_ids=HashIds.of(ids),
        hash_block_tokens=block_size,
        cache_salt=Labels.of([each.salt or None for each in prompts]),
    )


def text_of(names: Iterable[str]) -> str:
    """A list of blocks: plain ones that follow each other are counted."""
    parts: list[str] = []
    plain = 0
    for name in [*names, ""]:
        if name == PLAIN:
            plain += 1
            continue
        if plain:
            parts.append(f"{PLAIN} x{plain}" if plain > 1 else PLAIN)
            plain = 0
        parts.append(name)
    return ", ".join(parts[:-1]) or "none"
