"""The account of the pool, asserted while an experiment runs (`--check`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagesim.sim.allocators import AnyAllocator


class AccountCheck:
    """Asserts capacity = used + reserved + internal + free, from the requests' side and from the allocator's.

    What is free is asserted after every event; every owner and every slot each time that as many events have passed as
    there are owners, so that checking costs a constant for each event.
    """

    def __init__(self, allocator: AnyAllocator, final_tokens: Sequence[int], tokens_now: Callable[[int], int]) -> None:
        self._allocator, self._final, self._tokens_now = allocator, final_tokens, tokens_now
        self._events = 0

    def after_event(self) -> None:
        """Call it after each event. Raises AssertionError."""
        allocator = self._allocator
        free, largest = allocator.free_tokens, allocator.largest_free_run
        assert 0 <= largest <= free <= allocator.pool.capacity_tokens, (
            f"{free} slots free, the largest run of {largest}\n{allocator.dump()}"
        )
        self._events += 1
        if self._events >= len(allocator.tokens):
            self._events = 0
            self.check_all()

    def check_all(self) -> None:
        """Every owner and every slot."""
        used = reserved = internal = 0
        for owner in list(self._allocator.tokens):
            tokens, owned, final = self._tokens_now(owner), self._allocator.owned(owner), self._final[owner]
            assert self._allocator.grow(owner, tokens), f"owner {owner} has no room for its {tokens} tokens"
            assert self._allocator.owned(owner) == owned, f"owner {owner} took more than it had to"
            used += tokens
            reserved += min(owned, final) - tokens
            internal += max(owned - final, 0)
        self._allocator.check()
        account = self._allocator.account()
        assert (account.used, account.empty) == (used, reserved + internal), (
            f"{account}, but {used} tokens are used, {reserved} reserved, {internal} internal\n{self._allocator.dump()}"
        )
        assert used + reserved + internal + account.free == account.capacity, f"{account}\n{self._allocator.dump()}"
