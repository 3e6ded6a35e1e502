"""Paging: block tables. Blocks come from a free list, and a position becomes a block, an offset and a slot.

The answers are those of `sim.allocators.paged`, which hands out every block and keeps no null block back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pagesim.sim.allocators import Paged as PagedAllocator
from pagesim.sim.allocators import Pool
from pagesim.sim.quiz import operations as o
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Blank, Exercise, Question
from pagesim.sim.quiz.operations import Operation
from pagesim.sim.quiz.wording import counted, listed

ACCEPTED = "+N (a sequence of N tokens arrives), K+N (sequence K, from 0, grows by N) or -K (it leaves)"


@dataclass(frozen=True, slots=True)
class Paging:
    """Which blocks does each sequence get, where in the pool does a token lie, and what is wasted?"""

    NAME: ClassVar[str] = "paging"
    SEQUENCE: ClassVar[str] = ACCEPTED
    DRAWN: ClassVar[frozenset[str]] = frozenset({"ops", "max_request", "percent_arrivals"})

    num_blocks: int = parameters.number(12, 1, 2**10, "blocks of the pool, from 0")
    block_size: int = parameters.number(4, 1, 2**10, "tokens in a block")
    ops: int = parameters.number(9, 1, o.MOST_OPERATIONS, "arrivals, growths and departures in an exercise")
    lookups: int = parameters.number(3, 0, 100, "positions to find in the pool at the end")
    max_request: int = parameters.number(14, 1, 2**20, "the longest sequence that is drawn, tokens")
    percent_arrivals: int = parameters.number(60, 1, 100, "of 100 operations drawn, so many are arrivals")

    def __post_init__(self) -> None:
        parameters.check(self)

    def exercise(self, draws: Draws, explicit: str | None) -> Exercise:
        """One exercise. Raises UsageError on a sequence that makes no sense."""
        slots, of_lookups = self.num_blocks * self.block_size, Draws(draws.bits())
        pool = PagedAllocator(Pool(slots, slots, self.block_size))
        given = self._given(pool)
        done, questions, arrived = [], [], 0
        for operation in self._operations(draws, explicit, pool):
            done.append(operation)
            if operation.kind == o.ARRIVES:
                questions.append(self._grows(pool, operation, arrived, 0))
                arrived += 1
            elif operation.kind == o.GROWS:
                assert operation.owner is not None
                questions.append(self._grows(pool, operation, operation.owner, pool.tokens[operation.owner]))
            else:
                questions.append(self._leaves(pool, operation))
        tokens = [(sequence, position) for sequence, held in pool.tokens.items() for position in range(held)]
        for place in of_lookups.sample(min(self.lookups, len(tokens)), len(tokens)):
            questions.append(self._lookup(pool, *tokens[place]))
        questions.append(self._account(pool))
        return Exercise(",".join(map(str, done)), given, tuple(questions))

    def _given(self, pool: PagedAllocator) -> tuple[str, ...]:
        return (
            f"A pool of {counted(self.num_blocks, 'block')} of {counted(self.block_size, 'token')}. A sequence gets "
            "the blocks that its tokens fill, from anywhere, and more as it grows; if there are too few it is refused, "
            "and nothing changes.",
            "The free list is a stack, written from the bottom to the top. Who needs n blocks gets the n at its right "
            "end, in the order in which they stand there; a table that comes back goes on at the right end as it is.",
            f"It starts as {listed(free_blocks(pool))}.",
        )

    def _operations(self, draws: Draws, explicit: str | None, pool: PagedAllocator) -> Iterator[Operation]:
        if explicit is None:
            for _ in range(self.ops):
                most = min(self.max_request, self.num_blocks * self.block_size)
                yield o.drawn(draws, pool.tokens, self.percent_arrivals, most, max_growth=2 * self.block_size)
            return
        for place, operation in enumerate(o.parse(explicit, ACCEPTED, can_grow=True), start=1):
            if operation.owner is not None:
                o.check_owner(place, operation, operation.owner, pool.tokens)
            yield operation

    def _grows(self, pool: PagedAllocator, operation: Operation, sequence: int, before: int) -> Question:
        """An arrival grows from nothing."""
        size, tokens, free = self.block_size, before + operation.tokens, free_blocks(pool)
        has = len(pool.block_tables[sequence]) if before else 0
        done = pool.grow(sequence, tokens) if before else pool.place(sequence, tokens)
        table = list(pool.block_tables[sequence]) if done else None
        needed = -(-tokens // size)
        working = [f"{counted(tokens, 'token')} / {size} = {counted(needed, 'block')}, the last with "
                   f"{tokens - (needed - 1) * size}"]  # fmt: skip
        missing = needed - has
        working += [f"it has {has}: {missing} more"] if before else []
        if not done:
            working.append(f"{missing} wanted, {len(free)} free: refused")
        elif missing:
            working.append(f"the right end of the free list, {listed(free[len(free) - missing :])}, is cut off")
        else:
            working.append("the last block has room: no block is taken")
        who = f"sequence {sequence}"
        text = f"{who} grows by {operation.tokens} to {tokens}" if before else f"{who} arrives with {tokens}"
        shown = "refused" if table is None else listed(table)
        return Question(
            f"{operation}: {text} token{'' if tokens == 1 else 's'}.",
            (Blank("table", "its block table, or refused", table, shown), _free(pool)),
            tuple(working),
        )

    def _leaves(self, pool: PagedAllocator, operation: Operation) -> Question:
        assert operation.owner is not None
        table = list(pool.block_tables[operation.owner])
        pool.release(operation.owner)
        working = f"its table, {listed(table)}, goes to the right end of the free list"
        return Question(f"{operation}: sequence {operation.owner} leaves.", (_free(pool),), (working,))

    def _lookup(self, pool: PagedAllocator, sequence: int, position: int) -> Question:
        size, table = self.block_size, pool.block_tables[sequence]
        entry, offset = divmod(position, size)
        block = table[entry]
        slot = list(pool.extents(sequence))[entry].start + offset
        return Question(
            f"Sequence {sequence}, position {position} (from 0): where does the token lie?",
            tuple(
                Blank(key, what, value, str(value))
                for key, what, value in (
                    ("entry", "entry of the block table", entry),
                    ("block", "block", block),
                    ("offset", "offset in the block", offset),
                    ("slot", "slot of the pool", slot),
                )
            ),
            (
                f"entry {position} // {size} = {entry} of {listed(table)}: block {block}",
                f"offset {position} % {size} = {offset}",
                f"slot {block} * {size} + {offset} = {slot}",
            ),
        )

    def _account(self, pool: PagedAllocator) -> Question:
        account, size, free = pool.account(), self.block_size, free_blocks(pool)
        tails = [f"{len(pool.block_tables[k])}*{size} - {n}" for k, n in pool.tokens.items()]
        asked = min(account.largest_free_run, account.capacity)
        return Question(
            "The account of the pool at the end.",
            tuple(
                Blank(key, what, value, str(value))
                for key, what, value in (
                    ("used", "slots that hold a token", account.used),
                    ("internal", "internal waste, slots owned and empty", account.empty),
                    ("free_blocks", "free blocks", len(free)),
                    ("largest_request", "the longest sequence that would be placed now, tokens", asked),
                )
            ),
            (
                f"used: {' + '.join(map(str, pool.tokens.values())) or '0'} = {account.used}",
                f"internal: {' + '.join(tails) or '0'} = {account.empty}; less than a block for each sequence",
                f"every free block serves anyone, wherever it lies: {len(free)}*{size} = {asked}; there is no external "
                "waste",
            ),
        )


def free_blocks(pool: PagedAllocator) -> list[int]:
    """The free list of the allocator, in its order."""
    return [extent.start // extent.tokens for extent in pool.free_extents()]


def _free(pool: PagedAllocator) -> Blank:
    free = free_blocks(pool)
    return Blank("free", "the free list afterwards", free, listed(free))
