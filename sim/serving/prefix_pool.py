"""A pool of blocks that can be found again by what is in them: automatic prefix caching.

Blocks without a hash are interchangeable, so they are only counted; a block gets a slot when it gets its hash. The
free list has the plain ones first and the hashed ones behind, in the order in which they were freed; so a hash is lost
only when no plain block is left. An answer's blocks can be found by nobody but the same request after a preemption:
their hashes are not made until they are freed. And since only a look-up sees which hashes there are, those that were
made or lost since the last one are settled then, all at once. Source of the rules: vLLM 0.29, block pool and KV-cache
manager.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pagesim.sim.serving.chains import NO_KEYS, HashChains
from pagesim.sim.serving.eviction import EvictionQueue
from pagesim.sim.serving.lru import FreeQueue
from pagesim.sim.serving.ranking import Ranking
from pagesim.sim.trace import Ints

NOWHERE = -1
LOST = -1  # the key of a block whose like will never be asked for again


class PrefixPool:
    """Blocks with identities, as far as they matter. A BlockPool."""

    def __init__(
        self,
        usable_blocks: int,
        block_size: int,
        chains: HashChains,
        queue: EvictionQueue | None = None,
        ranking: Ranking | None = None,
    ) -> None:
        """`queue`: in which order free blocks with a hash are taken, default least recently freed first; `ranking` is
        told what it needs to know for that."""
        self.free = usable_blocks
        self.shared_tokens = self.at_stake = 0
        self._usable, self._size, self._chains = usable_blocks, block_size, chains
        self._queue = FreeQueue(usable_blocks) if queue is None else queue
        self._ranking = ranking
        self._references = np.zeros(usable_blocks, np.int64)  # by slot
        self._key = np.full(usable_blocks, LOST, np.int64)  # by slot
        self._no_hash = np.arange(usable_blocks)  # slots that carry no hash: the first `_num_no_hash`
        self._num_no_hash = usable_blocks
        self._slot = np.full(1024, NOWHERE, np.int64)  # by key: the copy that was inserted first
        self._copies: dict[int, list[int]] = {}  # by key: the other copies, by age
        self._copied = np.zeros(1024, np.bool_)  # by key: whether there are any
        self._keys_of: dict[int, Ints] = {}  # by row: the chain, as far as it may be found
        self._table: dict[int, Ints] = {}  # by row: slots of its hashed blocks, which come first
        self._found: Ints = NO_KEYS
        self._owed = 0  # blocks at the head of the queue that are taken already
        self._filled: list[tuple[int, int]] = []  # (row, blocks of it that are full), in order of time, without hashes

    @property
    def ripens_in(self) -> int | None:
        """A block that a decode fills is its request's own."""
        return None

    @property
    def cached(self) -> int:
        """Hashed ones of the free list."""
        return len(self._queue) - self._owed

    def find(self, row: int, tokens: int) -> int:
        """The longest hit: whole blocks, and at least one token left to compute."""
        keys = self._chain(row)[: (tokens - 1) // self._size]
        if not len(keys):
            return 0
        self._settle()
        if self._slot[keys[0]] == NOWHERE:
            return 0
        slots = self._slot[keys]
        missing = slots == NOWHERE
        self._found = slots[: int(missing.argmax())] if missing.any() else slots
        return len(self._found) * self._size

    def place(self, row: int, whole: int, hit: int, computed: int, spare: int) -> bool:
        """A hit block that lay in the free list leaves it; one that a live sequence holds costs nothing."""
        if self.asked(row, whole, hit) > self.free - spare:
            return False
        found = self._found[: hit // self._size]
        if self._ranking is not None:
            self._ranking.placed(row, len(found))
        idle = found[self._references[found] == 0]
        if hit:
            self._queue.remove(idle)
            self.free -= len(idle)
            self.shared_tokens += (len(found) - len(idle)) * self._size
            self._references[found] += 1
        self._table[row] = found
        self.extend(row, len(found) * self._size, computed)
        return True

    def asked(self, row: int, whole: int, hit: int) -> int:
        """Whole blocks, less those found that live sequences hold."""
        found = self._found[: hit // self._size]
        shared = int((self._references[found] > 0).sum()) if hit else 0
        self.at_stake = len(found) - shared
        return -(-whole // self._size) - shared

    def missing(self, before: int, computed: int) -> int:
        """Whole blocks."""
        return -(-computed // self._size) - -(-before // self._size)

    def extend(self, row: int, before: int, computed: int) -> None:
        """Full blocks of known text can be found as soon as they are scheduled."""
        self.take(self.missing(before, computed))
        full = min(computed // self._size, len(self._keys_of[row]))
        if full > len(self._table[row]):
            if self._filled and self._filled[-1][0] == row:
                self._filled.pop()
            self._filled.append((row, full))
        if self._ranking is not None:
            self._ranking.extended(row, computed // self._size)

    def take(self, blocks: int) -> None:
        """The head of the free list: plain blocks, then those freed longest ago, whose hashes are then forgotten."""
        self.free -= blocks
        self._owed = max(self._owed, len(self._queue) - self.free)

    def _settle(self) -> None:
        """Forget the hashes of blocks that were taken, and give full blocks theirs."""
        if self._owed:
            self._forget(self._queue.take(self._owed))
            self._owed = 0
        for row, full in self._filled:
            table = self._table[row]
            slots = self._insert(row, len(table), self._keys_of[row][len(table) : full])
            self._table[row] = np.concatenate((table, slots))
        self._filled.clear()

    def finish(self, row: int, computed: int) -> None:
        """The answer's blocks keep hashes that nobody will ask for; they are taken in their turn."""
        self._settle()
        table = self._table.pop(row)
        del self._keys_of[row]
        answer = self._slots(computed // self._size - len(table))
        self._key[answer] = LOST
        if self._ranking is not None:
            self._ranking.finished(row, len(table), answer)
        self._release(table, answer, computed)

    def preempt(self, row: int, computed: int) -> None:
        """Every full block can be found by the request when it comes back."""
        self._settle()
        table, keys, full = self._table.pop(row), self._keys_of[row], computed // self._size
        if full > len(keys):
            keys = self._keys_of[row] = np.concatenate((keys, self._chains.private(full - len(keys))))
        answer = self._insert(row, len(table), keys[len(table) : full])
        if self._ranking is not None:
            self._ranking.returned(row, keys)
        self._release(table, answer, computed)

    def _release(self, table: Ints, answer: Ints, computed: int) -> None:
        """Back to the free list, the end of the table first; a partly filled block is plain."""
        self._references[table] -= 1
        self._references[answer] = 0
        idle = table[self._references[table] == 0]
        self.shared_tokens -= (len(table) - len(idle)) * self._size
        self._queue.append(answer[::-1])
        self._queue.append(idle[::-1])
        self.free += -(-computed // self._size) - len(table) + len(idle)

    def _chain(self, row: int) -> Ints:
        keys = self._keys_of.get(row)
        if keys is None:
            keys = self._keys_of[row] = self._chains.prompt(row)
            self._grow_keys()
        return keys

    def _grow_keys(self) -> None:
        short = self._chains.num_keys - len(self._slot)
        if short > 0:
            more = np.full(max(short, len(self._slot)), NOWHERE, np.int64)
            self._slot = np.concatenate((self._slot, more))
            self._copied = np.concatenate((self._copied, np.zeros(len(more), np.bool_)))

    def _slots(self, count: int) -> Ints:
        """Slots for blocks that get a hash."""
        self._num_no_hash -= count
        return self._no_hash[self._num_no_hash : self._num_no_hash + count].copy()

    def _insert(self, row: int, first: int, keys: Ints) -> Ints:
        """Give blocks of `row`, from number `first` on, their hashes; their slots.

        Where there are copies already, these stay the ones that are found.
        """
        self._grow_keys()
        slots = self._slots(len(keys))
        self._key[slots] = keys
        self._references[slots] = 1
        if self._ranking is not None:
            self._ranking.inserted(row, first, slots, keys)
        taken = self._slot[keys] != NOWHERE
        if taken.any():
            for key, slot in zip(keys[taken].tolist(), slots[taken].tolist(), strict=True):
                self._copies.setdefault(key, []).append(slot)
            self._copied[keys[taken]] = True
            keys, new = keys[~taken], slots[~taken]
            self._slot[keys] = new
        else:
            self._slot[keys] = slots
        return slots

    def _forget(self, slots: Ints) -> None:
        """Take the hashes of free blocks away."""
        self._no_hash[self._num_no_hash : self._num_no_hash + len(slots)] = slots
        self._num_no_hash += len(slots)
        keys = self._key[slots]
        kept = keys != LOST
        keys, slots = keys[kept], slots[kept]
        copied = self._copied[keys]
        self._slot[keys[~copied]] = NOWHERE
        for key, slot in zip(keys[copied].tolist(), slots[copied].tolist(), strict=True):
            self._forget_copy(key, slot)

    def _forget_copy(self, key: int, slot: int) -> None:
        copies = self._copies.get(key)
        if copies is None:  # the others went just now
            self._slot[key] = NOWHERE
        elif self._slot[key] == slot:
            self._slot[key] = copies.pop(0)
        else:
            copies.remove(slot)
        if copies == []:
            del self._copies[key]
            self._copied[key] = False

    def held(self, computed: Mapping[int, int]) -> int:
        """Each hashed block once, and each sequence's others."""
        self._settle()
        assert self._table.keys() == computed.keys(), self.dump()
        others = [-(-tokens // self._size) - len(self._table[row]) for row, tokens in computed.items()]
        assert min(others, default=0) >= 0, self.dump()
        return len(np.unique(np.concatenate([NO_KEYS, *self._table.values()]))) + sum(others)

    def check(self) -> None:
        """Assert, in time linear in the pool, that every hashed block is held or free, once, and found where it is."""
        self._settle()
        free, bare = self._queue.slots(), self._no_hash[: self._num_no_hash]
        held = np.concatenate([NO_KEYS, *self._table.values()])
        assert len(free) == len(self._queue) <= self.free <= self._usable, self.dump()
        assert sorted({*free.tolist(), *bare.tolist(), *held.tolist()}) == list(range(self._usable)), self.dump()
        assert len(free) + len(bare) + len(np.unique(held)) == self._usable, self.dump()
        assert (np.bincount(held, minlength=self._usable)[held] == self._references[held]).all(), self.dump()
        assert not self._references[free].any(), self.dump()
        found = {int(slot) for slot in self._slot if slot != NOWHERE}
        copies = [slot for slots in self._copies.values() for slot in slots]
        hashed = [slot for slot in {*free.tolist(), *held.tolist()} if self._key[slot] != LOST]
        assert sorted([*found, *copies]) == sorted(hashed), self.dump()

    def dump(self) -> str:
        """The whole state, for the message of a broken `check`."""
        state = {"free": self.free, "queue": self._queue.slots(), "table": self._table, "copies": self._copies}
        return "\n".join(f"{name}: {value}" for name, value in state.items())
