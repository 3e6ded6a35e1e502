"""Blocks with names, for a log that only counts them: which block each sequence has, who shares it, what can be found.

The rules are those of `serving.prefix_pool`: plain free blocks are taken first, the last freed before the others; then
those with a hash, the one freed longest ago first, whose hash is then forgotten. A sequence gives its table back from
the end. Plain blocks are interchangeable, so which of them one gets is a choice made here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from pagesim.sim.poolmap.recording import NoMapError

Key = tuple[object, int]
"""What a hash stands for: (whose text, number of the block in it)."""


class NamedBlocks:
    """`table`: by row, its blocks in order. `holders` counts, by block, the tables that it is in."""

    def __init__(self, usable_blocks: int) -> None:
        self.table: dict[int, list[int]] = {}
        self.holders: Counter[int] = Counter()
        self.key: dict[int, Key] = {}
        self._plain = list(reversed(range(usable_blocks)))
        self._hashed: OrderedDict[int, None] = OrderedDict()  # free, and can be found
        self._found: dict[Key, list[int]] = {}  # blocks of that content, by age

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._plain) + len(self._hashed)

    def give(self, row: int, count: int) -> list[int]:
        """Append `count` free blocks to the table of `row`."""
        blocks = [self._take() for _ in range(count)]
        self.table.setdefault(row, []).extend(blocks)
        self.holders.update(blocks)
        return blocks

    def share(self, row: int, blocks: list[int]) -> None:
        """Append blocks that were found, or that others hold."""
        self.table.setdefault(row, []).extend(blocks)
        for block in blocks:
            self._hashed.pop(block, None)
        self.holders.update(blocks)

    def copy(self, row: int, place: int) -> int:
        """Copy on write: a block of its own in place of the shared one."""
        new = self._take()
        old, self.table[row][place] = self.table[row][place], new
        self.holders[new] += 1
        self.holders[old] -= 1
        assert self.holders[old] > 0, (row, place, old)
        return new

    def find(self, keys: list[Key]) -> list[int]:
        """The oldest block of each content. Raises NoMapError if one is not there, as the log says it was."""
        missing = [key for key in keys if key not in self._found]
        if missing:
            raise NoMapError(f"the log found a block of {missing[0]}, which has none here")
        return [self._found[key][0] for key in keys]

    def hash(self, block: int, key: Key) -> None:
        """From now on it can be found."""
        self.key[block] = key
        self._found.setdefault(key, []).append(block)

    def release(self, row: int) -> None:
        """Take back what nobody else holds."""
        for block in reversed(self.table.pop(row)):
            self.holders[block] -= 1
            if not self.holders[block]:
                del self.holders[block]
                if block in self.key:
                    self._hashed[block] = None
                else:
                    self._plain.append(block)

    def _take(self) -> int:
        if self._plain:
            return self._plain.pop()
        block, _ = self._hashed.popitem(last=False)
        key = self.key.pop(block)
        self._found[key].remove(block)
        if not self._found[key]:
            del self._found[key]
        return block
