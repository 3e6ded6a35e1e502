"""The other allocators behind the same scheduler: each sequence gets one run of slots when it is admitted.

Room for the whole answer is taken at once, so nobody is ever preempted, and what does not fit waits. The pool is
counted in slots here, of which there are as many as in the usable blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagesim.sim.allocators import AnyAllocator, OracleAllocator


class ContiguousPool:
    """An allocator as a BlockPool whose blocks are single slots."""

    shared_tokens = cached = at_stake = 0
    ripens_in = None

    def __init__(self, allocator: AnyAllocator, final_tokens: Sequence[int]) -> None:
        """`final_tokens`, by row: what a request will ask for in all. Only an allocator that is an oracle is told."""
        self._allocator, self._final = allocator, final_tokens
        self.free = allocator.free_tokens

    def find(self, row: int, tokens: int) -> int:
        """Nothing is ever found."""
        return 0

    def place(self, row: int, whole: int, hit: int, computed: int, spare: int) -> bool:
        """If the allocator has a run that is long enough, and leaves `spare` slots."""
        allocator = self._allocator
        if isinstance(allocator, OracleAllocator):
            placed = allocator.place(row, whole, self._final[row])
        else:
            placed = allocator.place(row, whole)
        if placed and allocator.free_tokens < spare:
            allocator.release(row)
            placed = False
        self.free = allocator.free_tokens
        return placed

    def asked(self, row: int, whole: int, hit: int) -> int:
        """What the allocator was told of: free slots in total, in a row or not."""
        return self._final[row] if isinstance(self._allocator, OracleAllocator) else whole

    def missing(self, before: int, computed: int) -> int:
        """Nothing: the run was long enough from the start."""
        return 0

    def extend(self, row: int, before: int, computed: int) -> None:
        """Into slots that it owns."""

    def take(self, blocks: int) -> None:
        """Answers grow into slots that they own."""
        assert blocks == 0, blocks

    def finish(self, row: int, computed: int) -> None:
        """Release the run."""
        self._allocator.release(row)
        self.free = self._allocator.free_tokens

    def preempt(self, row: int, computed: int) -> None:
        """Never happens: nobody asks for more."""
        raise AssertionError(f"request {row} was preempted from a contiguous pool")

    def held(self, computed: Mapping[int, int]) -> int:
        """The runs, each of which must be long enough for what was computed."""
        allocator = self._allocator
        assert allocator.tokens.keys() == computed.keys(), (list(allocator.tokens), computed)
        assert all(allocator.owned(row) >= tokens for row, tokens in computed.items()), computed
        return sum(map(allocator.owned, computed))

    def check(self) -> None:
        """As the allocator does."""
        self._allocator.check()
        assert self.free == self._allocator.free_tokens, (self.free, self._allocator.dump())
