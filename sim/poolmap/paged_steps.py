"""The steps of a paged run, with a name for each block (see `blocks`)."""

from __future__ import annotations

from collections import defaultdict, deque

from pagesim.sim.poolmap.blocks import Key, NamedBlocks
from pagesim.sim.poolmap.recording import Event, Kind
from pagesim.sim.poolmap.step_log import Chunk, Levels, StepLog
from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.trace import Trace


class PagedSteps:
    """Goes through the steps of `log` in order. `trace`: a row for each sample, as the log has."""

    def __init__(self, trace: Trace, log: ServingLog) -> None:
        config = log.config
        self._log, self._size = StepLog(log), config.block_size
        self._blocks, self._levels = NamedBlocks(config.usable_blocks), Levels()
        self._chains = HashChains(trace, config.block_size) if config.prefix_caching else None
        self._usable = config.usable_blocks
        self._number: dict[int, int] = {}  # by row: its place in the running list
        self._admitted = 0
        self._prompt_keys: dict[int, list[int]] = {}
        self._num_keys: dict[int, int] = {}  # by row: blocks that get a hash once they are full
        self._due: dict[int, list[int]] = defaultdict(list)  # by step: decodes that need a block, or may have to copy
        self._due_at: dict[int, int] = {}  # by row: the last promise, others are void
        self._key_numbers: dict[Key, int] = {}
        self._told: list[Event] = []

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return self._usable - self._blocks.free

    @property
    def largest_free_run(self) -> int:
        """All free blocks, in slots: any will do."""
        return self._blocks.free * self._size

    def given_for(self, asked: int) -> int:
        """Whole blocks are asked for."""
        return asked

    def state(self, step: int) -> list[Event]:
        """What brings an empty pool to the present, when `step` ends."""
        self._told, seen = [], set[int]()
        for row in sorted(self._blocks.table):
            for block in self._blocks.table[row]:
                self._tell(Kind.SHARE if block in seen else Kind.GIVE, row, [block])
                seen.add(block)
            self._tell(Kind.TOKENS, row, [], self._levels.at(row, step), self._levels.of[row][2])
        for block, key in self._blocks.key.items():
            self._tell_hash(block, key)
        return self._told

    def finish(self, step: int) -> list[Event]:
        """Who sampled its last token in `step` gives back what it holds."""
        self._told = []
        for row in self._log.finished.get(step, ()):
            self._leave(row, self._levels.at(row, step), Kind.LEAVE)
        return self._told

    def events(self, step: int) -> list[Event]:
        """What happens while `step` is scheduled."""
        self._told = []
        chunks, held = self._log.chunks.get(step, {}), self._log.held_back.get(step, ())
        due = {row for row in self._due.pop(step, ()) if self._due_at.get(row) == step} - set(held)
        coming = {row for row, _, _ in self._log.admissions.get(step, ())}
        going_on = [row for row in chunks if row not in coming and row in self._blocks.table]
        self._walk(step, sorted(due.union(going_on), key=self._number.__getitem__), chunks)
        for row in held:
            self._level(row, self._levels.at(row, step - 1), step, True)
        for row, hit, blocks in self._log.admissions.get(step, ()):
            self._number[row], self._admitted = self._admitted, self._admitted + 1
            if blocks or hit:  # else it waits for the first of its group, whose prompt it shares
                self._admit(row, hit, chunks[row], step)
        self._fork(chunks, step)
        return self._told

    def _walk(self, step: int, rows: list[int], chunks: dict[int, Chunk]) -> None:
        """Through the running list from the front; whoever went in this step goes when there is no block left."""
        victims, gone, granted = deque(self._log.preempted.get(step, ())), set[int](), set[int]()

        def next_goes() -> None:
            victim = victims.popleft()
            gone.add(victim)
            if victim in self._blocks.table:
                self._leave(victim, self._levels.at(victim, step if victim in granted else step - 1), Kind.PREEMPT)

        for row in rows:
            if row in gone:
                continue
            tokens = chunks[row].computed if row in chunks else self._levels.at(row, step)
            missing = -(-tokens // self._size) - len(self._blocks.table[row])
            place = (tokens - 1) // self._size
            copies = row not in chunks and missing <= 0 and self._blocks.holders[self._blocks.table[row][place]] > 1
            while max(missing, 0) + copies > self._blocks.free and row not in gone:
                next_goes()
            if row in gone:
                break
            self._give(row, missing)
            if copies:
                self._tell(Kind.COPY, row, [self._blocks.copy(row, place)], place)
            granted.add(row)
            if row in chunks:
                self._computed(row, chunks[row], step)
            else:
                self._promise(row, step)
        while victims:
            next_goes()

    def _admit(self, row: int, hit: int, chunk: Chunk, step: int) -> None:
        found = self._blocks.find([self._key(row, k) for k in range(hit // self._size)])
        if found:
            self._blocks.share(row, found)
            self._tell(Kind.SHARE, row, found)
        self._give(row, -(-chunk.computed // self._size) - len(found))
        self._computed(row, chunk, step)

    def _fork(self, chunks: dict[int, Chunk], step: int) -> None:
        """Samples whose prompt another computed share its blocks from now on; the log has that one behind them."""
        followers: list[int] = []
        for row, chunk in chunks.items():
            if row not in self._blocks.table:
                followers.append(row)
                continue
            for follower in followers:
                table = list(self._blocks.table[row])
                self._blocks.share(follower, table)
                self._tell(Kind.SHARE, follower, table)
            for one in [row, *followers] if followers else []:
                self._level(one, chunk.known, step, True)
            followers = []

    def _give(self, row: int, count: int) -> None:
        if count > 0:
            self._tell(Kind.GIVE, row, self._blocks.give(row, count))

    def _computed(self, row: int, chunk: Chunk, step: int) -> None:
        self._hash(row, min(chunk.computed // self._size, self._keys(row)))
        self._level(row, chunk.computed, step, chunk.computed == chunk.known)

    def _level(self, row: int, tokens: int, step: int, more: bool) -> None:
        self._levels.set(row, tokens, step, more)
        self._tell(Kind.TOKENS, row, [], tokens, int(more))
        self._due_at.pop(row, None)
        if more:
            self._promise(row, step)

    def _promise(self, row: int, step: int) -> None:
        """When a decode must be looked at again: its blocks are full, or it writes where others read."""
        tokens, table = self._levels.at(row, step), self._blocks.table[row]
        shares = tokens < len(table) * self._size and self._blocks.holders[table[tokens // self._size]] > 1
        at = step + (1 if shares else len(table) * self._size - tokens + 1)
        self._due_at[row] = at
        self._due[at].append(row)

    def _leave(self, row: int, tokens: int, kind: Kind) -> None:
        if self._chains is not None:
            full = tokens // self._size
            self._num_keys[row] = max(self._keys(row), full)
            self._hash(row, full)
        self._blocks.release(row)
        del self._levels.of[row]
        self._due_at.pop(row, None)
        self._tell(kind, row, [])

    def _hash(self, row: int, full: int) -> None:
        """The first `full` blocks of a sequence get their hashes, as far as they have none."""
        if self._chains is None:
            return
        for place, block in enumerate(self._blocks.table[row][:full]):
            if block not in self._blocks.key:
                self._blocks.hash(block, self._key(row, place))
                self._tell_hash(block, self._blocks.key[block])

    def _keys(self, row: int) -> int:
        """Blocks that can be found once they are full: of the prompt, and of what was computed before a preemption."""
        if self._chains is None:
            return 0
        if row not in self._prompt_keys:
            self._prompt_keys[row] = self._chains.prompt(row).tolist()
        return max(len(self._prompt_keys[row]), self._num_keys.get(row, 0))

    def _key(self, row: int, place: int) -> Key:
        self._keys(row)
        keys = self._prompt_keys[row]
        return ("text", keys[place]) if place < len(keys) else (row, place)

    def _tell_hash(self, block: int, key: Key) -> None:
        number = self._key_numbers.setdefault(key, len(self._key_numbers))
        self._told.append(Event(Kind.HASH, None, ((block, 1),), (number,)))

    def _tell(self, kind: Kind, row: int, blocks: list[int], *numbers: int) -> None:
        self._told.append(Event(kind, row, tuple((block, 1) for block in blocks), numbers))
