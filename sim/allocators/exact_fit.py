"""Exact fit: an oracle that gives each request one run of just its final length. No internal waste, only external."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, get_args

from pagesim.sim.allocators.base import Extent, OracleAllocator, Pool
from pagesim.sim.allocators.free_runs import FreeRuns
from pagesim.sim.allocators.runs_by_size import RunsBySize
from pagesim.sim.errors import UsageError

Fit = Literal["first", "best", "next", "worst"]


class ExactFit(OracleAllocator):
    """One contiguous run of the final length, out of the first, best, next or worst free run that is large enough.

    first: the lowest address. best: the smallest run (of equals, the lowest). next: the lowest address from where the
    last search ended, then from 0. worst: the largest run (of equals, the lowest). With `compact`, a request that no
    run holds although the free slots suffice makes every owner slide to the bottom of the pool; `moved_tokens` counts
    the tokens copied. The vocabulary is that of Operating Systems: Three Easy Pieces, chapter 17.
    """

    def __init__(self, pool: Pool, fit: Fit = "first", compact: bool = False) -> None:
        if fit not in get_args(Fit):
            raise UsageError(f"exact-fit:{fit}; accepted: {', '.join(get_args(Fit))}")
        super().__init__(pool)
        self.compact = compact
        self._next = 0  # next fit: where the last search ended
        self._run: dict[int, tuple[int, int]] = {}  # owner -> (start, slots)
        self._runs: FreeRuns | RunsBySize
        self._find: Callable[[int], int | None]
        if fit == "best":
            by_size = RunsBySize(pool.capacity_tokens)
            self._runs, self._find = by_size, by_size.best
        else:
            runs = FreeRuns(pool.capacity_tokens)
            self._runs = runs
            self._find = {
                "first": runs.first,
                "next": lambda size: runs.first(size) if (at := runs.first_from(self._next, size)) is None else at,
                "worst": lambda size: runs.first(max(size, runs.largest)),
            }[fit]

    @property
    def largest_free_run(self) -> int:
        """The largest run."""
        return self._runs.largest

    def place(self, owner: int, tokens: int, final_tokens: int) -> bool:
        """Take a run of `final_tokens`."""
        start = self._find(final_tokens)
        if start is None:
            if not self.compact or self.free_tokens < final_tokens:
                return False
            start = self._slide_down()
        self._runs.take(start, final_tokens)
        self._next = start + final_tokens
        self._run[owner] = (start, final_tokens)
        self.tokens[owner] = tokens
        self.free_tokens -= final_tokens
        return True

    def grow(self, owner: int, tokens: int) -> bool:
        """Always possible: the run was taken for the final length."""
        assert tokens <= self._run[owner][1], f"owner {owner} grows to {tokens}"
        self.tokens[owner] = tokens
        return True

    def release(self, owner: int) -> None:
        """Give the run back; it joins the free runs beside it."""
        del self.tokens[owner]
        start, size = self._run.pop(owner)
        self._runs.give(start, size)
        self.free_tokens += size

    def owned(self, owner: int) -> int:
        """The final length."""
        return self._run[owner][1]

    def extents(self, owner: int) -> Iterable[Extent]:
        """One."""
        yield Extent(*self._run[owner])

    def free_extents(self) -> Iterable[Extent]:
        """In order of address."""
        return (Extent(start, size) for start, size in self._runs)

    def check(self) -> None:
        """Also the structure of the free runs."""
        super().check()
        self._runs.check()

    def _slide_down(self) -> int:
        """Move every owner to the lowest address it can have; return that of the one free run left."""
        for start, size in list(self._runs):
            self._runs.take(start, size)
        end = 0
        for owner, (start, size) in sorted(self._run.items(), key=lambda item: item[1]):
            if start > end:
                self.moved_tokens += self.held(owner)
                self._run[owner] = (end, size)
            end += size
        self._runs.give(end, self.pool.capacity_tokens - end)
        return end
