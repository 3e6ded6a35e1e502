"""Placement: sequences whose length is known beforehand get one run of slots each, out of a list of free runs.

The answers are those of `sim.allocators`: exact fit by its four rules, and the buddy system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from pagesim.sim.allocators import FITS, Extent, OracleAllocator, Pool, allocator_class
from pagesim.sim.quiz import operations as o
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Blank, Exercise, Question
from pagesim.sim.quiz.operations import Operation
from pagesim.sim.quiz.placement_working import buddy_joined, buddy_split, fit_joined, fit_searched, runs
from pagesim.sim.quiz.wording import counted

BUDDY = "buddy"
POLICIES = {fit: words for fit, words in FITS.items() if fit != "compact"} | {
    BUDDY: "from the smallest free power of two that is large enough, halved until it is just so"
}
MORE = {
    "best": "Of equal runs the lowest.",
    "worst": "Of equal runs the lowest.",
    "next": "The search goes through the runs that start where the last run taken ended, or later; then the others.",
}
TRIES = 30
ACCEPTED = "+N (a sequence of N tokens arrives) or -K (the K-th that arrived, from 0, leaves)"


@dataclass(slots=True)
class _Course:
    """What happens in one exercise. `arrived` counts the refused too: a sequence is called by its place among all."""

    allocator: OracleAllocator
    arrived: int = 0
    last_end: int = 0  # where the last search ended, for next fit
    asked: dict[int, int] = field(default_factory=dict)  # by sequence that is there: its tokens
    choices: int = 0  # arrivals that could have gone into one run or another
    refused: int = 0
    refused_with_room: int = 0

    def free(self) -> list[Extent]:
        return list(self.allocator.free_extents())


@dataclass(frozen=True, slots=True)
class Placement:
    """Where does each sequence land, what is free afterwards, and what is wasted?"""

    NAME: ClassVar[str] = "placement"
    SEQUENCE: ClassVar[str] = ACCEPTED
    DRAWN: ClassVar[frozenset[str]] = frozenset({"ops", "max_request", "percent_arrivals"})

    size: int = parameters.number(64, 1, 2**20, "slots of the pool, one for each token, addresses from 0")
    policy: str = parameters.choice("first", POLICIES, "which free run a sequence gets its slots from")
    ops: int = parameters.number(12, 1, o.MOST_OPERATIONS, "arrivals and departures in an exercise")
    max_request: int = parameters.number(24, 1, 2**20, "the longest sequence that is drawn, tokens")
    percent_arrivals: int = parameters.number(70, 1, 100, "of 100 operations drawn, so many are arrivals")

    def __post_init__(self) -> None:
        parameters.check(self)

    def exercise(self, draws: Draws, explicit: str | None) -> Exercise:
        """One exercise; of those drawn, the first with a choice between runs, and a refusal though enough is free, if
        there is one in TRIES. Raises UsageError on a sequence that makes no sense.
        """
        exercise, course = self._played(draws, explicit)
        for _ in range(TRIES if explicit is None else 0):
            if course.choices and course.refused_with_room:
                break
            exercise, course = self._played(draws, explicit)
        return exercise

    def _played(self, draws: Draws, explicit: str | None) -> tuple[Exercise, _Course]:
        name = BUDDY if self.policy == BUDDY else f"exact-fit:{self.policy}"
        allocator = allocator_class(name)(Pool(self.size, self.size, 1))
        assert isinstance(allocator, OracleAllocator)
        course = _Course(allocator)
        given, done, questions = self._given(course), [], []
        for operation in self._operations(draws, explicit, course):
            done.append(operation)
            asks = self._arrives if operation.kind == o.ARRIVES else self._leaves
            questions.append(asks(course, operation))
        questions.append(self._account(course))
        return Exercise(",".join(map(str, done)), given, tuple(questions)), course

    def _given(self, course: _Course) -> tuple[str, ...]:
        rules = [
            f"A pool of {counted(self.size, 'slot')}, all free. A sequence says on arrival how long it will become, "
            "which no real server can know, and gets that many slots in a row or is refused: nobody waits.",
            f"Policy {self.policy}: {POLICIES[self.policy]}. {MORE.get(self.policy, '')}".strip(),
            "A run [a, b) is the slots from a up to, not including, b. Slots that come back join the free runs they "
            "touch.",
        ]
        if self.policy == BUDDY:
            rules[1:] = [
                f"Policy buddy: a sequence gets the least power of two that holds it, {POLICIES[BUDDY]}. Of a run that "
                "is halved, the lower half is used or halved again; of free runs of one size, the one that came free "
                "last is taken. A run that comes back joins its buddy if that is free as a whole, and so on.",
                "A run [a, b) is the slots from a up to, not including, b. The free list goes by size, then by when a "
                f"run came free. It starts as: {runs(course.free())}.",
            ]
        return tuple(rules)

    def _operations(self, draws: Draws, explicit: str | None, course: _Course) -> Iterator[Operation]:
        if explicit is None:
            for _ in range(self.ops):
                longest = min(self.max_request, self.size)
                yield o.drawn(draws, course.asked, self.percent_arrivals, longest)
            return
        for place, operation in enumerate(o.parse(explicit, ACCEPTED, can_grow=False), start=1):
            if operation.kind == o.LEAVES:
                o.check_owner(place, operation, operation.owner, course.asked)
            yield operation

    def _arrives(self, course: _Course, operation: Operation) -> Question:
        allocator, sequence, tokens, before = course.allocator, course.arrived, operation.tokens, course.free()
        course.arrived += 1
        course.choices += sum(e.tokens >= tokens for e in before) > 1
        placed = allocator.place(sequence, tokens, tokens)
        address = None
        if placed:
            (run,) = allocator.extents(sequence)
            address = run.start
            course.asked[sequence] = tokens
        else:
            course.refused += 1
            course.refused_with_room += sum(e.tokens for e in before) >= tokens
        if self.policy == BUDDY:
            working = buddy_split(before, tokens, address)
        else:
            working = fit_searched(self.policy, before, tokens, address, course.last_end)
        if address is not None:
            course.last_end = address + tokens
        shown = "refused" if address is None else str(address)
        return Question(
            f"{operation}: sequence {sequence} arrives, {counted(tokens, 'token')} long.",
            (
                Blank("address", "address of its first slot, or refused", address, shown),
                self._free_list(course),
            ),
            tuple(working),
        )

    def _leaves(self, course: _Course, operation: Operation) -> Question:
        allocator, before = course.allocator, course.free()
        assert operation.owner is not None
        (run,) = allocator.extents(operation.owner)
        allocator.release(operation.owner)
        del course.asked[operation.owner]
        joined = buddy_joined if self.policy == BUDDY else fit_joined
        return Question(
            f"{operation}: sequence {operation.owner} leaves.",
            (self._free_list(course),),
            tuple(joined(run, before, course.free())),
        )

    def _free_list(self, course: _Course) -> Blank:
        free = course.free()
        return Blank("free", "free runs afterwards", [[e.start, e.start + e.tokens] for e in free], runs(free))

    def _account(self, course: _Course) -> Question:
        account = course.allocator.account()
        free, largest = account.free, account.largest_free_run
        index = 1 - largest / free if free else 0.0
        used = account.capacity - account.empty - free
        halves = "runs are cut to measure: nothing inside them is wasted"
        if self.policy == BUDDY:
            pieces = [f"{course.allocator.owned(k)} - {n}" for k, n in course.asked.items()]
            halves = f"what powers of two are too large by: {' + '.join(pieces) or 'nobody is there'} = {account.empty}"
        return Question(
            "The account of the pool at the end, in slots.",
            (
                Blank("used", "used", used, str(used)),
                Blank("internal", "internal waste, owned and never filled", account.empty, str(account.empty)),
                Blank("free", "free", free, str(free)),
                Blank("largest_free_run", "largest free run", largest, str(largest)),
                Blank("external_index", "external index, 1 - largest free run / free", index, f"{index:.1%}"),
                Blank("refused", "sequences refused in all", course.refused, str(course.refused)),
                Blank(
                    "refused_with_room", "of them, with enough slots free in total", course.refused_with_room,
                    str(course.refused_with_room),
                ),
            ),
            (
                f"used: tokens of those who are there, {' + '.join(map(str, course.asked.values())) or '0'} = {used}",
                f"internal: {halves}",
                f"free: {account.capacity} - {used} - {account.empty} = {free}, {counted(len(course.free()), 'run')}",
                f"external index: 1 - {largest}/{free} = {index:.1%}" if free else "external index: nothing is free: 0",
                "refused though enough was free in total: that is external waste, memory that is there and of no use",
            ),
        )  # fmt: skip
