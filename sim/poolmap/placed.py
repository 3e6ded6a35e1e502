"""Records a run in which nothing waits: the real allocators are watched, with their real addresses."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pagesim.sim.allocators import AnyAllocator, OracleAllocator, Paged
from pagesim.sim.config import Growth
from pagesim.sim.placement import prepared
from pagesim.sim.poolmap.recording import NO_TIME, Event, Kind, NoMapError, Owner, Piece, Recording, given_for
from pagesim.sim.poolmap.window import Window
from pagesim.sim.trace import Floats, Trace


def record_placement(
    name: str, trace: Trace, residence_s: Floats, allocator: AnyAllocator, growth: Growth, window: Window
) -> Recording:
    """Run the experiment up to the end of `window`, a new `allocator` in charge, and write down what happens inside.

    Raises NoMapError if the allocator, anyone's own, says that it gave slots which are none of the pool.
    """
    watch = _Watch(name, trace, residence_s, allocator, growth)
    run = prepared(trace, residence_s, allocator, growth)
    watch.clock, watch.tokens_now = lambda: run.env.now, run.tokens_now
    while run.env.peek() < window.from_s:
        run.env.step()
    watch.open()
    while run.env.peek() <= min(window.to_s, sys.float_info.max):  # past that lies nothing
        run.env.step()
    return watch.recording


class _Watch:
    """Stands between the experiment and the three operations of an allocator; silent until it is opened."""

    def __init__(self, name: str, trace: Trace, residence_s: Floats, allocator: AnyAllocator, growth: Growth) -> None:
        self.clock: Callable[[], float]
        self.tokens_now: Callable[[int], int]
        paged = isinstance(allocator, Paged)
        unit = allocator.pool.block_size if paged else 1
        capacity = allocator.pool.capacity_tokens
        self.recording = Recording(name, capacity, unit, "time" if growth == "token" else "final")
        self._trace, self._residence_s, self._allocator = trace, residence_s, allocator
        self._number: dict[int, int] = {}  # by row: its place among the owners
        self._pieces: dict[int, list[Piece]] = {}  # by row, as far as it was told
        self._moved, self._open = 0, False
        self._growing: int | None = None  # who asked for more in vain, and makes others go
        for operation, watched in (("place", self._place), ("grow", self._grow), ("release", self._release)):
            setattr(allocator, operation, watched(getattr(allocator, operation)))

    def open(self) -> None:
        """From now on; what is owned already is told first."""
        self._open, self._moved = True, self._allocator.moved_tokens
        self.recording.events_at(NO_TIME)
        for row in self._allocator.tokens:
            self._enter(NO_TIME, row)

    def _place(self, place: Callable[..., bool]) -> Callable[..., bool]:
        def placed(row: int, *tokens: int) -> bool:
            free, done = self._allocator.free_tokens, place(row, *tokens)
            if self._open and done:
                self._compacted()
                self._enter(self.clock(), row)
            elif self._open:
                asked = tokens[-1] if isinstance(self._allocator, OracleAllocator) else tokens[0]
                numbers = (asked, free, self._allocator.largest_free_run, given_for(self._allocator, asked))
                self._tell(self.clock(), Event(Kind.REFUSE, self._owner(row), numbers=numbers))
            return done

        return placed

    def _grow(self, grow: Callable[..., bool]) -> Callable[..., bool]:
        def grown(row: int, tokens: int) -> bool:
            done = grow(row, tokens)
            self._growing = None if done else row
            if self._open and done:
                known = self._pieces[row]
                more = self._now(row)[len(known) :]
                known += more
                self._tell(self.clock(), Event(Kind.GIVE, self._number[row], tuple(more)), self._tokens(row, tokens))
            return done

        return grown

    def _release(self, release: Callable[[int], None]) -> Callable[[int], None]:
        def released(row: int) -> None:
            release(row)
            if self._open:
                kind = Kind.LEAVE if self._growing is None else Kind.DROP
                self._tell(self.clock(), Event(kind, self._number[row]))
                del self._pieces[row]
            if self._growing == row:
                self._growing = None  # it was the youngest itself

        return released

    def _enter(self, time_s: float, row: int) -> None:
        self._pieces[row] = self._now(row)
        given = Event(Kind.GIVE, self._owner(row), tuple(self._pieces[row]))
        self._tell(time_s, given, self._tokens(row, self._allocator.tokens[row]))

    def _compacted(self) -> None:
        if self._allocator.moved_tokens != self._moved:
            self._moved = self._allocator.moved_tokens
            for row, pieces in self._pieces.items():
                if pieces != (now := self._now(row)):
                    self._pieces[row] = now
                    self._tell(self.clock(), Event(Kind.MOVE, self._number[row], tuple(now)))

    def _tokens(self, row: int, tokens: int) -> Event:
        return Event(Kind.TOKENS, self._number[row], numbers=(tokens, 0))

    def _now(self, row: int) -> list[Piece]:
        unit, pieces = self.recording.unit, list[Piece]()
        for extent in self._allocator.extents(row):
            first, units = int(extent.start) // unit, int(extent.tokens) // unit
            whole = (first * unit, units * unit) == (extent.start, extent.tokens)
            if not whole or extent.start < 0 or extent.start + extent.tokens > self._allocator.pool.capacity_tokens:
                raise NoMapError(f"it says that request {row} has {extent}, which are no slots of the pool")
            pieces.append((first, units))
        return pieces

    def _owner(self, row: int) -> int:
        if row not in self._number:
            self._number[row] = len(self.recording.owners)
            trace = self._trace
            self.recording.owners.append(
                Owner(
                    row,
                    int(trace.prompt_tokens[row]),
                    int(trace.total_tokens[row]),
                    float(trace.arrival_s[row]),
                    float(self._residence_s[row]),
                )
            )
        return self._number[row]

    def _tell(self, time_s: float, *events: Event) -> None:
        self.recording.events_at(time_s).extend(events)
