"""What a recording of a pool is: moments, and at each what happened to whose slots.

Slots are told in pieces: runs of units, where a unit is a block for paging and a slot for all else. What an owner holds
is the list of its pieces, in the order of its tokens; block number k of a sequence is the k-th piece.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pagesim.sim.allocators import AnyAllocator, Buddy, Paged, Reservation
from pagesim.sim.errors import PagesimError

Piece = tuple[int, int]
"""(first unit, units)."""
Grows = Literal["final", "step", "time"]
NO_TIME = -1.0  # before all others: the state that a window opens with


class NoMapError(PagesimError):
    """A run whose pool cannot be drawn as a map; the page says so, and has all else."""


class Kind(StrEnum):
    """What can happen; the page knows it by these letters. In brackets: what `Event.numbers` holds.

    GIVE: pieces that nobody else holds are appended. SHARE: pieces that others hold, or that were found in the free
    list, are. COPY [place in the table]: the piece there is copied on write to another. MOVE: compaction; these are all
    its pieces now. LEAVE: it gives up all that nobody else holds; PREEMPT: so that others can go on, and comes back;
    DROP: for good, before its end. TOKENS [tokens, 1 if it gains one in each step from the next on].
    HASH [key]: a block can be found by its content, of which equal ones have equal keys. REFUSE and WAIT [asked, free,
    largest run that could be given, what the allocator would have given, all in slots]: no room; of WAIT the owner is
    not known.
    """

    GIVE = "g"
    SHARE = "s"
    COPY = "c"
    MOVE = "m"
    LEAVE = "l"
    PREEMPT = "p"
    DROP = "d"
    TOKENS = "t"
    HASH = "h"
    REFUSE = "r"
    WAIT = "w"


def given_for(allocator: AnyAllocator, asked: int) -> int:
    """Slots that a request for `asked` takes, in one piece or in blocks."""
    if isinstance(allocator, Reservation):
        return allocator.pool.max_model_len
    if type(allocator) is Buddy:
        return 1 << (asked - 1).bit_length()
    if isinstance(allocator, Paged):
        return -(-asked // allocator.pool.block_size) * allocator.pool.block_size
    return asked


@dataclass(frozen=True, slots=True)
class Event:
    """`owner`: the place of an Owner in the recording."""

    kind: Kind
    owner: int | None
    pieces: tuple[Piece, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """A request: its row in the trace, and slots that are filled in the end. `from_s` and `stay_s`: when it was placed
    and for how long, where tokens grow by time."""

    row: int
    prompt: int
    final: int
    from_s: float = 0.0
    stay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """`step`: the number of the step that begins here, where there are steps."""

    time_s: float
    step: int
    events: list[Event]


@dataclass(slots=True)
class Recording:
    """One allocator. `capacity`: slots that can be owned. `unit`: slots in a unit. `moments`: in order of time; the
    first, at NO_TIME, is the state that the window opens with. `grows`: how a token count goes on by itself. `plain`:
    blocks that cannot be told apart, so that which of them a sequence got is the recorder's choice, in the order of a
    free list of its own; counts are the simulator's.
    """

    name: str
    capacity: int
    unit: int
    grows: Grows
    plain: bool = False
    owners: list[Owner] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def events_at(self, time_s: float, step: int = 0) -> list[Event]:
        """Those of a moment, which is made if it is not the last."""
        if not self.moments or self.moments[-1].time_s != time_s:
            self.moments.append(Moment(time_s, step, []))
        return self.moments[-1].events
