"""The placement experiment: requests arrive, hold room for their residence time, and go; who finds no room is lost.

SimPy owns time: one event for each arrival, departure, and growth that needs more room. Nothing waits. Between events
nothing changes but the number of tokens that grow inside room already owned, which is a closed form (`occupancy`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush

import numpy as np
import simpy
from numpy.typing import NDArray
from simpy.events import NORMAL, URGENT, EventPriority

from pagesim.sim.allocators import AnyAllocator, OracleAllocator
from pagesim.sim.checking import AccountCheck
from pagesim.sim.config import Growth
from pagesim.sim.trace import Floats, Ints, Trace

OnProgress = Callable[[int], None]
ADMITTED, REFUSED, REJECTED, DROPPED = range(4)
PROGRESS_STEP = 1000

# One row for each refusal, in order of time, in tokens: what the request needed (its tokens at admission, or in the end
# where an oracle must place them all), and what the pool was like.
REFUSAL = np.dtype([("request", "i8"), ("asked", "i8"), ("free", "i8"), ("largest_free_run", "i8")])
# One row for each growth past what was owned: slots taken, and how many of them will never be filled.
GROWTH = np.dtype([("request", "i8"), ("time_s", "f8"), ("slots", "i8"), ("internal", "i8")])


@dataclass(frozen=True, slots=True, eq=False)
class PlacementLog:
    """What happened to one trace under one allocator; the state at any instant follows from it.

    By request: `outcome` (int8: ADMITTED, REFUSED, REJECTED, DROPPED), `owned` (int64: slots given at admission, 0 for
    none) and `end_s` (float64: when it left; its arrival if it never entered). `growths` is of GROWTH, `refusals` of
    REFUSAL. `moved_tokens` counts what compaction copied.
    """

    outcome: NDArray[np.int8]
    owned: Ints
    end_s: Floats
    growths: NDArray[np.void]
    refusals: NDArray[np.void]
    moved_tokens: int


def place_all(
    trace: Trace,
    residence_s: Floats,
    allocator: AnyAllocator,
    growth: Growth = "final",
    check: bool = False,
    on_progress: OnProgress | None = None,
) -> PlacementLog:
    """Run the experiment to its end, when everyone has left.

    `residence_s`: float64 [requests], > 0, how long each request stays once it is placed. `growth` "final": all tokens
    count from admission. "token": the prompt at once, then output token j after j/output_tokens of the residence (the
    last never needs a slot); when the pool is dry the youngest request is dropped. `check` asserts the account of the
    pool as it goes (AssertionError). `on_progress` is told of each PROGRESS_STEP arrivals. A request longer than the
    allocator could ever hold is rejected.
    """
    run = prepared(trace, residence_s, allocator, growth, on_progress)
    if check:
        account = AccountCheck(allocator, run.final, run.tokens_now)
        while run.env.peek() < float("inf"):
            run.env.step()
            account.after_event()
    else:
        run.env.run()
    return run.log()


def prepared(
    trace: Trace,
    residence_s: Floats,
    allocator: AnyAllocator,
    growth: Growth = "final",
    on_progress: OnProgress | None = None,
) -> _Run:
    """An experiment with its first arrival scheduled, to be stepped by its clock, `env`; else as `place_all`."""
    run = (_GrowingRun if growth == "token" else _Run)(trace, residence_s, allocator, on_progress)
    run.start()
    return run


class _Happening(simpy.Event):
    """An event that is bound to happen, about one owner: a simpy.Timeout without a value or a list of its own."""

    _ok = True
    _value = None

    def __init__(self, callbacks: list[Callable[..., None]], owner: int) -> None:
        self.callbacks = callbacks
        self.owner = owner


class _Clock(simpy.Environment):
    """SimPy plans by delay, but now + (t - now) need not be t: what is due at one instant would come apart."""

    def at(self, time_s: float, event: _Happening, priority: EventPriority = NORMAL) -> None:
        heappush(self._queue, (time_s, priority, next(self._eid), event))


class _Run:
    """All tokens count from admission. The inner loop is closures over locals: a million requests pass through it."""

    def __init__(
        self, trace: Trace, residence_s: Floats, allocator: AnyAllocator, on_progress: OnProgress | None
    ) -> None:
        self.env = _Clock()
        self.trace, self.residence_s, self.allocator, self.on_progress = trace, residence_s, allocator, on_progress
        self.final: list[int] = trace.total_tokens.tolist()
        self.owned = [0] * len(trace)
        self.refusals: list[tuple[int, int, int, int]] = []
        self.growths: list[tuple[int, float, int, int]] = []
        self.dropped_s: dict[int, float] = {}
        self.outcome = np.full(len(trace), ADMITTED, np.int8)
        self.outcome[trace.total_tokens > allocator.largest_request_tokens] = REJECTED

    def start(self) -> None:
        """Schedule the first arrival; each arrival schedules the next."""
        env, allocator, owned, refusals = self.env, self.allocator, self.owned, self.refusals
        at, on_progress = env.at, self.on_progress
        arrival_s, residence_s = self.trace.arrival_s.tolist(), self.residence_s.tolist()
        place, entered = self.placer(), self.entered()
        asked = self.final if isinstance(allocator, OracleAllocator) else self.first_tokens()
        coming = iter(np.flatnonzero(self.outcome == ADMITTED).tolist())
        arriving: list[Callable[..., None]] = []
        departing: list[Callable[..., None]] = [self.departure()]

        def arrive(event: _Happening) -> None:
            owner, free = event.owner, allocator.free_tokens
            if place(owner):
                owned[owner] = free - allocator.free_tokens
                at(arrival_s[owner] + residence_s[owner], _Happening(departing, owner), URGENT)
                if entered:
                    entered(owner)
            else:
                refusals.append((owner, asked[owner], free, allocator.largest_free_run))
            if on_progress and owner % PROGRESS_STEP == PROGRESS_STEP - 1:
                on_progress(PROGRESS_STEP)
            await_next(event)

        def await_next(event: _Happening) -> None:
            owner = next(coming, None)
            if owner is not None:
                event.owner, event.callbacks = owner, arriving  # one event serves all arrivals
                at(arrival_s[owner], event)

        arriving.append(arrive)
        await_next(_Happening(arriving, 0))

    def placer(self) -> Callable[[int], bool]:
        """What places an owner, and tells the allocator no more than its kind may know."""
        first, final, allocator = self.first_tokens(), self.final, self.allocator
        if isinstance(allocator, OracleAllocator):
            tell_all = allocator.place
            return lambda owner: tell_all(owner, first[owner], final[owner])
        tell_now = allocator.place
        return lambda owner: tell_now(owner, first[owner])

    def first_tokens(self) -> list[int]:
        return self.final

    def tokens_now(self, owner: int) -> int:
        return self.final[owner]

    def entered(self) -> Callable[[int], None] | None:
        return None

    def departure(self) -> Callable[[_Happening], None]:
        release = self.allocator.release
        return lambda event: release(event.owner)

    def log(self) -> PlacementLog:
        refusals = np.array(self.refusals, REFUSAL)
        dropped = np.array(list(self.dropped_s), np.int64)
        self.outcome[refusals["request"]] = REFUSED
        end_s = self.trace.arrival_s + np.where(self.outcome == ADMITTED, self.residence_s, 0)
        self.outcome[dropped] = DROPPED
        end_s[dropped] = list(self.dropped_s.values())
        owned, growths = np.array(self.owned, np.int64), np.array(self.growths, GROWTH)
        return PlacementLog(self.outcome, owned, end_s, growths, refusals, self.allocator.moved_tokens)


class _GrowingRun(_Run):
    """The prompt at admission, then a token at a time; events only where the allocator must find more room."""

    def start(self) -> None:
        self.live: dict[int, int] = {}  # in order of admission: owner -> tokens it surely has, rounding or not
        self.growing: list[Callable[..., None]] = [self.grow]
        self.allocator.held = self.tokens_now
        super().start()

    def first_tokens(self) -> list[int]:
        prompts: list[int] = self.trace.prompt_tokens.tolist()
        return prompts

    def tokens_now(self, owner: int) -> int:
        age = (self.env.now - self.trace.arrival_s[owner]) / self.residence_s[owner]
        tokens = int(self.trace.prompt_tokens[owner]) + int(age * self.trace.output_tokens[owner])
        return max(self.live[owner], min(tokens, self.allocator.owned(owner), self.final[owner]))

    def entered(self) -> Callable[[int], None]:
        def enter(owner: int) -> None:
            self.live[owner] = int(self.trace.prompt_tokens[owner])
            self.await_growth(owner)

        return enter

    def departure(self) -> Callable[[_Happening], None]:
        def depart(event: _Happening) -> None:
            if event.owner in self.live:  # else it was dropped before its time
                self.leave(event.owner)

        return depart

    def await_growth(self, owner: int) -> None:
        """Schedule the moment at which `owner` needs a slot more than it owns, if that comes before its end."""
        number = self.allocator.owned(owner) - int(self.trace.prompt_tokens[owner]) + 1  # of the output token
        outputs = int(self.trace.output_tokens[owner])
        if number < outputs:
            due_s = float(self.trace.arrival_s[owner] + self.residence_s[owner] * number / outputs)
            self.env.at(due_s, _Happening(self.growing, owner))

    def grow(self, event: _Happening) -> None:
        """Take one more slot, dropping the youngest until there is one, or the owner itself is gone."""
        owner, allocator = event.owner, self.allocator
        while owner in self.live:
            before = allocator.owned(owner)
            if allocator.grow(owner, before + 1):
                self.live[owner] = before + 1
                after, final = allocator.owned(owner), self.final[owner]
                internal = max(after - final, 0) - max(before - final, 0)
                self.growths.append((owner, self.env.now, after - before, internal))
                self.await_growth(owner)
                return
            youngest = next(reversed(self.live))
            self.dropped_s[youngest] = self.env.now
            self.leave(youngest)

    def leave(self, owner: int) -> None:
        del self.live[owner]
        self.allocator.release(owner)
