"""The recording of a placement run: played, it is the pool of the real allocator after every moment, slot for slot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagesim.sim.allocators import Extent, Pool, Reservation, allocator_class, builtin_names
from pagesim.sim.placement import place_all, prepared
from pagesim.sim.poolmap.placed import record_placement
from pagesim.sim.poolmap.playback import Account, Playback
from pagesim.sim.poolmap.recording import NO_TIME, Kind, NoMapError
from pagesim.sim.poolmap.window import Window, placement_window
from pagesim.sim.trace import Trace

POOL = Pool(330, 79, 8)  # two slots are no whole block


def drawn(count: int = 300) -> tuple[Trace, Any]:
    rng = np.random.default_rng(5)
    trace = Trace(np.cumsum(rng.exponential(0.35, count)), rng.integers(1, 40, count), rng.integers(1, 40, count))
    return trace, trace.total_tokens * rng.uniform(0.05, 0.15, count)


def real(run: Any, allocator: Any) -> Account:
    """The account of the allocator itself, by everybody in it."""
    used = reserved = internal = 0
    for owner in allocator.tokens:
        tokens, owned, final = run.tokens_now(owner), allocator.owned(owner), run.final[owner]
        used, reserved, internal = (
            used + tokens,
            reserved + min(owned, final) - tokens,
            internal + max(owned - final, 0),
        )
    return Account(used, reserved, internal, allocator.free_tokens)


@pytest.mark.parametrize("growth", ["final", "token"])
@pytest.mark.parametrize("name", [*builtin_names()[:3], "exact-fit:next:compact", "buddy", "paged"])
def test_every_moment_is_the_pool_as_it_was(name: str, growth: Any) -> None:
    trace, residence_s = drawn()
    log = place_all(trace, residence_s, allocator_class(name)(POOL), growth)
    window = placement_window(trace, {name: log}, 400, from_s=20.0)
    recording = record_placement(name, trace, residence_s, allocator_class(name)(POOL), growth, window)
    allocator = allocator_class(name)(POOL)
    run, played = prepared(trace, residence_s, allocator, growth), Playback(recording)
    assert recording.moments[0].time_s == NO_TIME and len(recording.moments) > 300
    refused = 0
    for moment in recording.moments[1:] if not played.apply(recording.moments[0]) else []:
        while run.env.peek() <= moment.time_s:
            run.env.step()
        played.apply(moment)
        assert played.account(moment.time_s) == real(run, allocator), moment
        held = {recording.owners[owner].row: pieces for owner, pieces in played.table.items()}
        unit = recording.unit
        assert held == {
            row: [(extent.start // unit, extent.tokens // unit) for extent in allocator.extents(row)]
            for row in allocator.tokens
        }
        for event in moment.events:
            if event.kind is Kind.REFUSE:
                refused += 1
                row = recording.owners[event.owner or 0].row
                wanted = log.refusals[log.refusals["request"] == row].tolist()
                assert wanted == [(row, *event.numbers[:3])]
    inside = (trace.arrival_s >= window.from_s) & (trace.arrival_s <= window.to_s)
    assert refused == int(inside[log.refusals["request"]].sum()) > 0


def test_the_dropped_and_the_moved_are_told() -> None:
    trace, residence_s = drawn()
    whole = Window(0.0, float("inf"), True, "all")
    dropping = record_placement("paged", trace, residence_s, allocator_class("paged")(POOL), "token", whole)
    log = place_all(trace, residence_s, allocator_class("paged")(POOL), "token")
    kinds = [event.kind for moment in dropping.moments for event in moment.events]
    assert kinds.count(Kind.DROP) == int((log.outcome == 3).sum()) > 0
    compact = "exact-fit:first:compact"
    moving = record_placement(compact, trace, residence_s, allocator_class(compact)(POOL), "final", whole)
    assert any(event.kind is Kind.MOVE for moment in moving.moments for event in moment.events)


def test_the_window_lies_where_the_last_allocator_refuses_for_the_first_time() -> None:
    trace, residence_s = drawn()
    names = ("reservation", "exact-fit", "paged")
    logs = {name: place_all(trace, residence_s, allocator_class(name)(POOL)) for name in names}
    first = {name: float(trace.arrival_s[log.refusals["request"][0]]) for name, log in logs.items()}
    last = max(first, key=lambda name: first[name])
    window = placement_window(trace, logs, 100)
    assert window.from_s <= first[last] <= window.to_s and last in window.around and not window.whole
    assert placement_window(trace, logs, 10**6).whole


class Astray(Reservation):
    """Says of what it placed that it lies behind the pool's end."""

    def extents(self, owner: int) -> list[Extent]:
        return [Extent(self.pool.capacity_tokens - 1, 2)]


def test_slots_that_are_none_of_the_pool_have_no_map() -> None:
    trace, residence_s = drawn(20)
    with pytest.raises(NoMapError, match=r"request 0 has Extent\(start=329, tokens=2\), which are no slots"):
        record_placement("own:Astray", trace, residence_s, Astray(POOL), "final", Window(0.0, 9.0, True, ""))
