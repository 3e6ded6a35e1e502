"""The free runs of a pool in order of address, with the largest of them always at hand.

The address space is cut at `_heads` into ranges of at most CHUNK runs each, and a binary tree over the ranges holds the
largest run that starts in each. Finding the first run that is large enough walks down the tree, then through one chunk:
logarithmic in the number of runs. A run given back joins the free neighbours that it touches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

CHUNK = 32


class FreeRuns:
    """Free runs, none of which touch. It starts as one run: the whole pool."""

    def __init__(self, capacity: int) -> None:
        self._size = {0: capacity}  # start -> size
        self._start = {capacity: 0}  # end -> start
        self._rebuild()

    @property
    def largest(self) -> int:
        """The size of the largest run, 0 if there is none."""
        return self._tree[1]

    def __len__(self) -> int:
        return len(self._size)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(start, size) in order of address."""
        return ((start, self._size[start]) for chunk in self._chunks for start in chunk)

    def first(self, size: int) -> int | None:
        """Address of the first run of `size` or more."""
        return self._first_below(1, size) if self._tree[1] >= size else None

    def first_from(self, address: int, size: int) -> int | None:
        """Address of the first run of `size` or more that starts at `address` or later."""
        chunk = bisect_right(self._heads, address) - 1
        for start in self._chunks[chunk][bisect_left(self._chunks[chunk], address) :]:
            if self._size[start] >= size:
                return start
        tree, node = self._tree, self._leaves + chunk
        while node > 1:
            if node % 2 == 0 and tree[node + 1] >= size:  # a left child: what lies to its right is next
                return self._first_below(node + 1, size)
            node //= 2
        return None

    def take(self, start: int, size: int) -> None:
        """Cut `size` slots off the front of the run that starts at `start`."""
        before = self._size.pop(start)
        assert before >= size, f"the free run at {start} has {before} slots, not {size}"
        index = bisect_right(self._heads, start) - 1
        chunk = self._chunks[index]
        where = bisect_left(chunk, start)
        rest = start + size
        if before == size:
            del chunk[where], self._start[rest]
        else:
            self._size[rest] = before - size
            self._start[start + before] = rest
            if rest < self._ends[index]:
                chunk[where] = rest
            else:  # the rest starts in a later chunk's range
                del chunk[where]
                self._insert(rest, before - size)
                index = bisect_right(self._heads, start) - 1
        if self._tree[self._leaves + index] == before:
            self._lower(index)

    def give(self, start: int, size: int) -> None:
        """Give a run back, and join it with the free runs that it touches."""
        end = start + size
        right = self._size.pop(end, None)
        if right is not None:
            index = bisect_right(self._heads, end) - 1
            chunk = self._chunks[index]
            del chunk[bisect_left(chunk, end)]
            if self._tree[self._leaves + index] == right:
                self._lower(index)
            end += right
        left = self._start.pop(start, None)
        head = start if left is None else left
        self._start[end] = head
        self._size[head] = end - head
        if left is None:
            self._insert(head, end - head)
        else:
            self._raise(bisect_right(self._heads, head) - 1, end - head)

    def check(self) -> None:
        """Assert that runs are in order, none touch, and every part of the structure says the same."""
        end = -1
        for start, size in self:
            assert start > end and size > 0, f"the run at {start} touches the one that ends at {end}"
            assert self._start[start + size] == start
            end = start + size
        assert sum(map(len, self._chunks)) == len(self._size) == len(self._start)
        for index, chunk in enumerate(self._chunks):
            assert len(chunk) <= CHUNK and all(self._heads[index] <= start < self._ends[index] for start in chunk)
            assert self._tree[self._leaves + index] == self._largest_in(index)
        for node in range(1, self._leaves):
            assert self._tree[node] == max(self._tree[2 * node], self._tree[2 * node + 1])

    def _first_below(self, node: int, size: int) -> int:
        """The first run of `size` or more under a node that has one."""
        tree, leaves = self._tree, self._leaves
        while node < leaves:
            node *= 2
            if tree[node] < size:
                node += 1
        sizes = self._size
        for start in self._chunks[node - leaves]:
            if sizes[start] >= size:
                return start
        raise AssertionError(f"the tree promises a run of {size} that its chunk does not have")

    def _insert(self, start: int, size: int) -> None:
        index = bisect_right(self._heads, start) - 1
        chunk = self._chunks[index]
        insort(chunk, start)
        if len(chunk) > CHUNK:
            self._split(index)
        else:
            self._raise(index, size)

    def _raise(self, index: int, size: int) -> None:
        """A run in chunk `index` has become as large as `size`."""
        tree, node = self._tree, self._leaves + index
        while node and tree[node] < size:
            tree[node] = size
            node //= 2

    def _lower(self, index: int) -> None:
        """The largest run of chunk `index` has shrunk or gone."""
        tree, node = self._tree, self._leaves + index
        largest = self._largest_in(index)
        while tree[node] != largest:
            tree[node] = largest
            if node == 1:
                return
            sibling = tree[node ^ 1]
            if sibling > largest:
                largest = sibling
            node //= 2

    def _largest_in(self, index: int) -> int:
        chunk = self._chunks[index]
        return max(map(self._size.__getitem__, chunk)) if chunk else 0

    def _split(self, index: int) -> None:
        """Cut a chunk in two; once empty chunks abound, cut everything anew."""
        if len(self._chunks) > 8 + len(self._size) // 4:
            self._rebuild()
            return
        chunk = self._chunks[index]
        middle = len(chunk) // 2
        self._heads.insert(index + 1, chunk[middle])
        self._chunks[index : index + 1] = [chunk[:middle], chunk[middle:]]
        self._plant()

    def _rebuild(self) -> None:
        starts = sorted(self._size)
        self._chunks = [starts[k : k + CHUNK // 2] for k in range(0, len(starts), CHUNK // 2)] or [[]]
        self._heads = [0, *(chunk[0] for chunk in self._chunks[1:])]
        self._plant()

    def _plant(self) -> None:
        """Build the tree over the chunks as they are: node k over 2k and 2k + 1, chunk i at leaf `_leaves` + i."""
        self._ends = [*self._heads[1:], 1 << 62]
        self._leaves = leaves = 1 << (len(self._chunks) - 1).bit_length()
        tree = [0] * (2 * leaves)
        tree[leaves : leaves + len(self._chunks)] = map(self._largest_in, range(len(self._chunks)))
        for node in reversed(range(1, leaves)):
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        self._tree = tree
