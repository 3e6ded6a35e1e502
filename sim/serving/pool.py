"""The pool of blocks as the scheduler sees it, and the simplest one: without prefix caching a count is enough.

Blocks that carry no hash are interchangeable, so which of them a sequence gets changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class BlockPool(Protocol):
    """What a scheduler asks of a pool. `row` names a request. Nothing changes where room is refused."""

    free: int
    """Blocks that can be had now, hashed ones among them."""
    shared_tokens: int
    """Tokens that sequences hold in slots which another of them holds too, each time but the first."""
    at_stake: int
    """Free blocks that whoever was refused last would have found: once one is taken, the answer may be another."""

    @property
    def ripens_in(self) -> int | None:
        """So many steps after this one, at the soonest, a decode makes more to be found; None: no decode does."""

    @property
    def cached(self) -> int:
        """Free blocks that can still be found."""

    def find(self, row: int, tokens: int) -> int:
        """Tokens of the first `tokens` of a request that the prefix cache holds, fewer than `tokens`."""

    def place(self, row: int, whole: int, hit: int, computed: int, spare: int) -> bool:
        """Admit a request whose first `hit` tokens were just found: take blocks up to `computed` tokens.

        False unless the blocks for `whole` tokens could be had now and `spare` be left.
        """

    def asked(self, row: int, whole: int, hit: int) -> int:
        """Free blocks without which `place` refuses a request, whatever is spared."""

    def missing(self, before: int, computed: int) -> int:
        """Blocks that a sequence of `before` tokens must get to hold `computed`."""

    def extend(self, row: int, before: int, computed: int) -> None:
        """A chunk of a prompt: the blocks from `before` to `computed` tokens, which must be free."""

    def take(self, blocks: int) -> None:
        """Blocks for answers that grow, which must be free."""

    def finish(self, row: int, computed: int) -> None:
        """Take back all that a request holds, `computed` tokens, for good."""

    def preempt(self, row: int, computed: int) -> None:
        """Take back all that a request holds; it will return and look for it."""

    def held(self, computed: Mapping[int, int]) -> int:
        """Blocks that sequences must hold between them when they have computed so many tokens, by row."""

    def check(self) -> None:
        """Assert, in time linear in the pool, that the pool is in order."""


class CountingPool:
    """A pool of interchangeable blocks: a number."""

    shared_tokens = cached = at_stake = 0
    ripens_in = None

    def __init__(self, usable_blocks: int, block_size: int) -> None:
        self.free = usable_blocks
        self._usable, self._size = usable_blocks, block_size

    def find(self, row: int, tokens: int) -> int:
        """Nothing is ever found."""
        return 0

    def place(self, row: int, whole: int, hit: int, computed: int, spare: int) -> bool:
        """By count."""
        if -(-whole // self._size) > self.free - spare:
            return False
        self.free -= -(-computed // self._size)
        return True

    def asked(self, row: int, whole: int, hit: int) -> int:
        """By count."""
        return -(-whole // self._size)

    def missing(self, before: int, computed: int) -> int:
        """By count."""
        return -(-computed // self._size) - -(-before // self._size)

    def extend(self, row: int, before: int, computed: int) -> None:
        """By count."""
        self.free -= self.missing(before, computed)

    def take(self, blocks: int) -> None:
        """By count."""
        self.free -= blocks

    def finish(self, row: int, computed: int) -> None:
        """By count."""
        self.free += -(-computed // self._size)

    def preempt(self, row: int, computed: int) -> None:
        """By count."""
        self.free += -(-computed // self._size)

    def held(self, computed: Mapping[int, int]) -> int:
        """By count."""
        return sum(-(-tokens // self._size) for tokens in computed.values())

    def check(self) -> None:
        """No more is free than there is."""
        assert 0 <= self.free <= self._usable, (self.free, self._usable)
