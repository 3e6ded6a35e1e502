"""A prefix pool in which a match may end inside a block: that is copied then, and the rest computed into the copy.

A what-if (`prefix_match_unit`): vLLM 0.29 matches whole blocks of full attention. Only full blocks are ever found, as
there; but of the first of them that differs, or is only needed in part, the tokens in common are used. The copy is a
block of its own, taken with those for the rest of the prompt. It is made layer by layer, behind what is being computed
in the same step, so a block that was filled in this very step may be copied as others may be shared. Left out: the time
of the copy, some microseconds within the card's memory; and that the block copied from was used: it keeps its place
among the free.
"""

from __future__ import annotations

import numpy as np

from pagesim.sim.serving.beginnings import Beginnings
from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.eviction import EvictionQueue
from pagesim.sim.serving.prefix_pool import NOWHERE, PrefixPool
from pagesim.sim.serving.ranking import Ranking
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.running import Running
from pagesim.sim.trace import Ints, Trace


class FinePool(PrefixPool):
    """A match is a multiple of `unit` tokens, which divides the block size.

    The block in which a prompt ends and its answer begins has a key of its own here, since others may share its first
    tokens. Once full it can be found, also while its sequence runs. `blocks_copied`: matches that end inside a block;
    `part_tokens`: what they found there.
    """

    def __init__(
        self,
        config_blocks: tuple[int, int],
        unit: int,
        trace: Trace,
        chains: HashChains,
        requests: Requests,
        running: Running,
        queue: EvictionQueue | None = None,
        ranking: Ranking | None = None,
    ) -> None:
        """`config_blocks`: (usable blocks, block size)."""
        super().__init__(*config_blocks, chains, queue, ranking)
        self.blocks_copied = self.part_tokens = 0
        self._unit, self._prompt, self._known, self._running = unit, requests.prompt, requests.known, running
        self._beginnings = Beginnings(trace, chains, self._size)
        self._after: dict[int, int | None] = {}  # by row: the key of the block behind its prompt's, in a longer one
        self._tails: set[int] = set()  # rows that decode, whose block at the end of the prompt has no hash yet

    def find(self, row: int, tokens: int) -> int:
        """Whole blocks, and what is common of the next."""
        self._close_tails()
        hit = super().find(row, tokens)
        self._settle()
        common = self._common(row, hit // self._size)
        return max(hit, min(hit + common, tokens - 1) // self._unit * self._unit)

    def _common(self, row: int, block: int) -> int:
        """The most first tokens of its block that one which can be found has too: its own, once it was preempted, or
        others as far as its prompt goes."""
        keys, left = self._keys_of[row], self._prompt[row] - block * self._size
        if block < len(keys) and self._can_be_found(int(keys[block])):
            return self._size
        if left <= 0:
            return 0
        after = self._after[row] if left < self._size else None
        if after is not None and self._can_be_found(after):
            return left
        return min(left, self._beginnings.common(row, block, keys))

    def _can_be_found(self, key: int) -> bool:
        return key < len(self._slot) and bool(self._slot[key] != NOWHERE)

    def place(self, row: int, whole: int, hit: int, computed: int, spare: int) -> bool:
        """The copy is one of the blocks behind those found."""
        placed = super().place(row, whole, hit, computed, spare)
        if placed and hit % self._size:
            self.blocks_copied += 1
            self.part_tokens += hit % self._size
        return placed

    def asked(self, row: int, whole: int, hit: int) -> int:
        """As for whole blocks; but what is copied from may be lost too."""
        asked = super().asked(row, whole, hit)
        self.at_stake += hit % self._size > 0
        return asked

    def extend(self, row: int, before: int, computed: int) -> None:
        """Watch the last block of a prompt once its sequence decodes."""
        super().extend(row, before, computed)
        prompt = self._prompt[row]
        if computed == self._known[row] and prompt % self._size and computed // self._size == prompt // self._size:
            self._tails.add(row)

    def finish(self, row: int, computed: int) -> None:
        """The block at the end of the prompt keeps a hash that others may ask for."""
        self._tails.discard(row)
        full = self._prompt[row] // self._size + 1
        if self._prompt[row] % self._size and computed // self._size >= full:
            self._filled.append((row, full))
        super().finish(row, computed)

    def preempt(self, row: int, computed: int) -> None:
        """All full blocks have keys."""
        self._tails.discard(row)
        super().preempt(row, computed)

    @property
    def ripens_in(self) -> int | None:
        """Until the first block at the end of a prompt is full, of those that are not yet in this step."""
        size, now = self._size, self._running.step
        full = [self._running.base[row] + (self._prompt[row] // size + 1) * size - 1 for row in self._tails]
        return min((step - now for step in full if step > now), default=None)

    def _close_tails(self) -> None:
        """Give last blocks of prompts their hashes, which decodes have filled meanwhile."""
        step, base = self._running.step, self._running.base
        for row in list(self._tails):
            full = self._prompt[row] // self._size + 1
            if step + 1 - base[row] >= full * self._size:
                self._filled.append((row, full))
                self._tails.discard(row)

    def _chain(self, row: int) -> Ints:
        if row not in self._keys_of:
            keys = super()._chain(row)
            self._after[row] = self._chains.after(row)
            if self._prompt[row] % self._size:
                self._keys_of[row] = np.concatenate((keys, self._chains.private(1)))
            self._grow_keys()
        return self._keys_of[row]

    def _insert(self, row: int, first: int, keys: Ints) -> Ints:
        slots = super()._insert(row, first, keys)
        last = -(-self._prompt[row] // self._size)
        for block, slot in enumerate(slots[: max(0, last - first)].tolist(), first):
            self._beginnings.put(slot, row, block, self._keys_of[row])
        return slots

    def _forget(self, slots: Ints) -> None:
        for slot in slots.tolist():
            self._beginnings.drop(slot)
        super()._forget(slots)
