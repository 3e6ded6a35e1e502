"""The free runs of a pool in order of size, for best fit: the smallest run that is large enough, by bisection."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList


class RunsBySize:
    """Free runs, none of which touch. It starts as one run: the whole pool."""

    def __init__(self, capacity: int) -> None:
        self._size = {0: capacity}  # start -> size
        self._start = {capacity: 0}  # end -> start
        self._sorted = SortedList([(capacity, 0)])

    @property
    def largest(self) -> int:
        """The size of the largest run, 0 if there is none."""
        return self._sorted[-1][0] if self._sorted else 0

    def __len__(self) -> int:
        return len(self._size)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(start, size) in order of address."""
        return iter(sorted(self._size.items()))

    def best(self, size: int) -> int | None:
        """Address of the smallest run of `size` or more; of equals, the lowest."""
        index = self._sorted.bisect_left((size, 0))
        return self._sorted[index][1] if index < len(self._sorted) else None

    def take(self, start: int, size: int) -> None:
        """Cut `size` slots off the front of the run that starts at `start`."""
        before = self._remove(start)
        assert before >= size, f"the free run at {start} has {before} slots, not {size}"
        if before > size:
            self._add(start + size, before - size)

    def give(self, start: int, size: int) -> None:
        """Give a run back, and join it with the free runs that it touches."""
        if start in self._start:
            size += start - self._start[start]
            start = self._start[start]
            self._remove(start)
        if start + size in self._size:
            size += self._remove(start + size)
        self._add(start, size)

    def check(self) -> None:
        """Assert that none touch, and every part of the structure says the same."""
        end = -1
        for start, size in self:
            assert start > end and size > 0, f"the run at {start} touches the one that ends at {end}"
            assert self._start[start + size] == start
            end = start + size
        assert list(self._sorted) == sorted((size, start) for start, size in self) and len(self._start) == len(self)

    def _add(self, start: int, size: int) -> None:
        self._size[start] = size
        self._start[start + size] = start
        self._sorted.add((size, start))

    def _remove(self, start: int) -> int:
        size = self._size.pop(start)
        del self._start[start + size]
        self._sorted.remove((size, start))
        return size
