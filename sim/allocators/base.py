"""What an allocator is: it places requests in one pool of token slots, at real addresses, and knows nothing of time.

Two kinds, told apart by type: most see only the tokens a request has now; an oracle is also told its final length,
which no real server can know. The simulator never hands the second number to the first kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from pagesim.sim.errors import UsageError

MAX_PIECES = 2**25  # blocks, or reservations: each is an object in memory
DUMPED = 20  # pieces of a broken state that are shown


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool that an allocator divides, in tokens: `capacity_tokens` slots, addressed 0 to capacity - 1.

    `max_model_len`: the longest sequence the server permits, prompt and output together. `block_size`: tokens to a
    block, for allocators that cut the pool into blocks. Raises UsageError if one longest sequence does not fit, or if
    there would be more than MAX_PIECES blocks or longest sequences.
    """

    capacity_tokens: int
    max_model_len: int
    block_size: int

    def __post_init__(self) -> None:
        for name in ("capacity_tokens", "max_model_len", "block_size"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)}; accepted: 1 or more")
        if self.max_model_len > self.capacity_tokens:
            raise UsageError(
                f"a pool of {self.capacity_tokens} tokens is smaller than one sequence of {self.max_model_len}; "
                f"accepted: a max_model_len up to {self.capacity_tokens}"
            )
        for name, size in (("blocks", self.block_size), ("longest sequences", self.max_model_len)):
            if self.capacity_tokens // size > MAX_PIECES:
                raise UsageError(
                    f"a pool of {self.capacity_tokens} tokens is {self.capacity_tokens // size:,} {name} of {size}; "
                    f"accepted: up to {MAX_PIECES:,}"
                )


@dataclass(frozen=True, slots=True)
class Extent:
    """`tokens` slots in a row, the first at address `start`."""

    start: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Account:
    """Where the pool's slots are now, in tokens: capacity = used + empty + free.

    `empty`: owned and holding nothing yet (reserved or internal waste: only someone who knows the final lengths can
    tell which). `largest_free_run`: the most that one request could be given at once.
    """

    capacity: int
    used: int
    empty: int
    free: int
    largest_free_run: int


class _Base(ABC):
    """The half that both kinds share. `free_tokens` is kept up to date by the subclass, in every operation.

    `moved_tokens` counts what the allocator has copied to make room. `held(owner)` says how many tokens there are to
    copy: those it was told of, unless a simulator that reports growth only where it needs room puts a better answer.
    """

    sees_final_length: ClassVar[bool]

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.free_tokens = pool.capacity_tokens
        self.tokens: dict[int, int] = {}  # owner -> tokens that it holds, as it was last told
        self.held: Callable[[int], int] = self.tokens.__getitem__
        self.moved_tokens = 0

    @property
    def largest_request_tokens(self) -> int:
        """The longest request, prompt and output, that an empty pool could ever hold."""
        return self.pool.max_model_len

    @property
    @abstractmethod
    def largest_free_run(self) -> int:
        """The most tokens that one request could be given now."""

    @abstractmethod
    def grow(self, owner: int, tokens: int) -> bool:
        """`owner` is to hold `tokens` in all. False, and nothing has changed, if there is no room."""

    @abstractmethod
    def release(self, owner: int) -> None:
        """Take back all that `owner` holds."""

    @abstractmethod
    def owned(self, owner: int) -> int:
        """Slots that `owner` owns: the most tokens it can hold without asking for more."""

    @abstractmethod
    def extents(self, owner: int) -> Iterable[Extent]:
        """The slots that `owner` owns, in the order of its tokens."""

    @abstractmethod
    def free_extents(self) -> Iterable[Extent]:
        """The slots that nobody owns."""

    def account(self) -> Account:
        """Where every slot of the pool is now."""
        used, capacity = sum(self.tokens.values()), self.pool.capacity_tokens
        owned = capacity - self.free_tokens
        return Account(capacity, used, owned - used, self.free_tokens, self.largest_free_run)

    def check(self) -> None:
        """Assert, in time linear in the pieces, that every slot is owned exactly once or free, and none is lost."""
        owned = {owner: list(self.extents(owner)) for owner in self.tokens}
        free = list(self.free_extents())
        pieces = sorted((e.start, e.tokens) for e in [*free, *(e for es in owned.values() for e in es)])
        end = 0
        for start, tokens in pieces:
            assert start == end and tokens > 0, f"slot {end} is lost or owned twice\n{self.dump()}"
            end += tokens
        assert end == self.pool.capacity_tokens, f"the pieces end at {end}\n{self.dump()}"
        assert sum(e.tokens for e in free) == self.free_tokens, f"free_tokens is wrong\n{self.dump()}"
        for owner, tokens in self.tokens.items():
            held = sum(e.tokens for e in owned[owner])
            assert tokens <= self.owned(owner) == held, f"owner {owner}: {tokens} tokens in {held} slots\n{self.dump()}"

    def dump(self) -> str:
        """The state, for the message of a broken `check`."""
        free = list(self.free_extents())
        rows = [
            f"{owner}: {n} tokens in {list(self.extents(owner))}" for owner, n in list(self.tokens.items())[:DUMPED]
        ]
        shown = f"the first {DUMPED} of {len(free)} free runs and {len(self.tokens)} owners:"
        return "\n".join([f"{self.pool}, free_tokens {self.free_tokens}; {shown}", f"{free[:DUMPED]}", *rows])


class Allocator(_Base):
    """An allocator that a real server could have: it sees the tokens of now, and the longest permitted."""

    sees_final_length = False

    @abstractmethod
    def place(self, owner: int, tokens: int) -> bool:
        """Make room for a new owner of `tokens`. False, and nothing has changed, if there is none."""


class OracleAllocator(_Base):
    """An allocator that is told, on arrival, how long the request will turn out to be."""

    sees_final_length = True

    @abstractmethod
    def place(self, owner: int, tokens: int, final_tokens: int) -> bool:
        """Make room for a new owner of `tokens` now and `final_tokens` in the end. False if there is none."""


AnyAllocator = Allocator | OracleAllocator
