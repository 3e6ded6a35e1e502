"""Slow and obvious models of the allocators: a pool is a list with the name of its owner in each slot.

Each model says which placements its rule permits, by looking at every slot, and is then told which one was made. They
share nothing with `pagesim.sim` but the pool's three numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

Slots = list[int]  # addresses


class SlotModel:
    """A pool as a list of slots; `slots[address]` is the owner, None if free."""

    def __init__(self, capacity: int, max_model_len: int, block_size: int) -> None:
        self.max_model_len, self.block_size = max_model_len, block_size
        self.slots: list[int | None] = [None] * capacity

    def free_runs(self) -> list[tuple[int, int]]:
        """(start, size) of every run of free slots, in order of address."""
        runs, address = [], 0
        for owner, group in groupby(self.slots):
            size = len(list(group))
            if owner is None:
                runs.append((address, size))
            address += size
        return runs

    def free_tokens(self) -> int:
        return self.slots.count(None)

    def owned(self, owner: int) -> Slots:
        return [address for address, name in enumerate(self.slots) if name == owner]

    def largest_free_run(self) -> int:
        return max((size for _, size in self.free_runs()), default=0)

    def permitted(self, tokens: int, final_tokens: int) -> list[Slots]:
        """Every choice that the rule leaves for a new owner; none: it must be refused."""
        raise NotImplementedError

    def give(self, owner: int, addresses: Iterable[int]) -> None:
        for address in addresses:
            assert self.slots[address] is None, f"slot {address} is handed to {owner}, and is {self.slots[address]}'s"
            self.slots[address] = owner

    def release(self, owner: int) -> None:
        self.slots = [None if name == owner else name for name in self.slots]


class ReservationModel(SlotModel):
    """Any free slice of max_model_len that starts at a multiple of it."""

    def permitted(self, tokens: int, final_tokens: int) -> list[Slots]:
        size = self.max_model_len
        starts = range(0, len(self.slots) - size + 1, size)
        return [[*range(at, at + size)] for at in starts if set(self.slots[at : at + size]) == {None}]

    def largest_free_run(self) -> int:
        return self.max_model_len if self.permitted(1, 1) else len(self.slots) % self.max_model_len


class ExactFitModel(SlotModel):
    """One run, by the words of each rule. With `compact`, everyone may first slide down, in order of address."""

    rover = 0
    moved_owners: Slots

    def __init__(self, fit: str, compact: bool, capacity: int, max_model_len: int, block_size: int) -> None:
        super().__init__(capacity, max_model_len, block_size)
        self.fit, self.compact = fit, compact

    def permitted(self, tokens: int, final_tokens: int) -> list[Slots]:
        self.moved_owners = []
        enough = [(start, size) for start, size in self.free_runs() if size >= final_tokens]
        if not enough and self.compact and self.free_tokens() >= final_tokens:
            self.slide_down()
            enough = self.free_runs()
        if not enough:
            return []
        start = {
            "first": lambda: enough[0][0],
            "best": lambda: min(enough, key=lambda run: (run[1], run[0]))[0],
            "worst": lambda: max(enough, key=lambda run: (run[1], -run[0]))[0],
            "next": lambda: [*(at for at, _ in enough if at >= self.rover), enough[0][0]][0],
        }[self.fit]()
        self.rover = start + final_tokens
        return [[*range(start, start + final_tokens)]]

    def slide_down(self) -> None:
        order = list(dict.fromkeys(owner for owner in self.slots if owner is not None))
        before = {owner: self.owned(owner) for owner in order}
        packed: list[int | None] = [owner for owner in self.slots if owner is not None]
        self.slots = packed + [None] * (len(self.slots) - len(packed))
        self.moved_owners = [owner for owner in order if self.owned(owner) != before[owner]]


class BuddyModel(SlotModel):
    """A free buddy is a largest aligned power of two that is wholly free, inside one of the pool's binary parts."""

    def buddies(self) -> list[tuple[int, int]]:
        """(start, size) of each."""
        found, start = [], 0
        for bit in reversed(range(len(self.slots).bit_length())):
            if len(self.slots) >> bit & 1:
                found += self.inside(start, 1 << bit)
                start += 1 << bit
        return found

    def inside(self, start: int, size: int) -> list[tuple[int, int]]:
        part = set(self.slots[start : start + size])
        if part == {None}:
            return [(start, size)]
        if size == 1 or None not in part:
            return []
        return self.inside(start, size // 2) + self.inside(start + size // 2, size // 2)

    def permitted(self, tokens: int, final_tokens: int) -> list[Slots]:
        wanted = 1
        while wanted < final_tokens:
            wanted *= 2
        enough = [(start, size) for start, size in self.buddies() if size >= wanted]
        smallest = min((size for _, size in enough), default=0)
        return [[*range(start, start + wanted)] for start, size in enough if size == smallest]

    def largest_free_run(self) -> int:
        return max((size for _, size in self.buddies()), default=0)


class OrcaPow2Model(BuddyModel):
    """What is still to come is made a power of two first; the whole is bounded by the context, or by the pool alone."""

    bounded = True

    def permitted(self, tokens: int, final_tokens: int) -> list[Slots]:
        coming = next(size for size in [0, *(1 << bit for bit in range(20))] if size >= final_tokens - tokens)
        largest = max(1 << bit for bit in range(20) if 1 << bit <= len(self.slots))
        most = min(largest, self.max_model_len) if self.bounded else largest
        return super().permitted(tokens, min(tokens + coming, most))


class OrcaPow2UnboundedModel(OrcaPow2Model):
    bounded = False


class PagedModel(SlotModel):
    """Any free blocks, as many as the tokens fill; the rest of the last block comes with them."""

    def free_blocks(self) -> list[Slots]:
        size = self.block_size
        whole = range(0, len(self.slots) - size + 1, size)
        return [[*range(at, at + size)] for at in whole if set(self.slots[at : at + size]) == {None}]

    def enough(self, tokens: int, owned: int) -> bool:
        """Whether an owner of `owned` slots can be given room for `tokens`."""
        missing = 0
        while owned + missing * self.block_size < tokens:
            missing += 1
        return missing <= len(self.free_blocks())

    def largest_free_run(self) -> int:
        return len(self.free_blocks()) * self.block_size or self.free_tokens()


def model_of(name: str, capacity: int, max_model_len: int, block_size: int) -> SlotModel:
    """The model of a built-in allocator."""
    kind, *rest = name.split(":")
    pool = capacity, max_model_len, block_size
    if kind == "pagesim.sim.allocators.orca":
        return {"OrcaPow2": OrcaPow2Model, "OrcaPow2Unbounded": OrcaPow2UnboundedModel}[rest[0]](*pool)
    if kind == "exact-fit":
        return ExactFitModel(rest[0] if rest else "first", "compact" in rest, *pool)
    return {"reservation": ReservationModel, "buddy": BuddyModel, "paged": PagedModel}[kind](*pool)
