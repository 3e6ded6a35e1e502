"""The placement experiment once more: one heap, one loop. It shares the allocators with `pagesim.sim`, nothing else.

Rules at one instant: departures first; then arrivals and growths in the order in which they were planned (an arrival
plans its own growth, then the next arrival; a growth plans the owner's next one).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pagesim.sim.allocators import AnyAllocator, OracleAllocator
from pagesim.sim.placement import ADMITTED, DROPPED, REFUSED, REJECTED, PlacementLog
from pagesim.sim.trace import Floats, Trace


@dataclass
class Story:
    """What happened: for each request its fate and end; refusals; drops; and who owned how much from when on."""

    fate: list[int]
    end_s: list[float]
    refusals: list[tuple[int, int, int, int]] = field(default_factory=list)  # request, asked, free, largest run
    drops: list[int] = field(default_factory=list)
    owned_from: list[tuple[int, float, int]] = field(default_factory=list)  # request, time, slots it owns now


def simulate(trace: Trace, residence_s: Floats, allocator: AnyAllocator, growth: str) -> Story:
    """Run it to its end."""
    arrival, stay = trace.arrival_s.tolist(), residence_s.tolist()
    prompt, output = trace.prompt_tokens.tolist(), trace.output_tokens.tolist()
    story = Story([ADMITTED] * len(trace), list(arrival))
    planned: list[tuple[float, int, int, str, int]] = []
    live: list[int] = []
    number = 0

    def plan(time_s: float, what: str, request: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(planned, (time_s, 0 if what == "depart" else 1, number, what, request))

    def plan_growth(request: int) -> None:
        token = allocator.owned(request) - prompt[request] + 1
        if growth == "token" and token < output[request]:
            plan(arrival[request] + stay[request] * token / output[request], "grow", request)

    def plan_arrival_after(request: int) -> None:
        for later in range(request + 1, len(arrival)):
            if prompt[later] + output[later] <= allocator.largest_request_tokens:
                plan(arrival[later], "arrive", later)
                return
            story.fate[later] = REJECTED

    def arrive(request: int) -> None:
        final = prompt[request] + output[request]
        now = final if growth == "final" else prompt[request]
        oracle = isinstance(allocator, OracleAllocator)
        found = request, final if oracle else now, allocator.free_tokens, allocator.largest_free_run
        if allocator.place(*((request, now, final) if oracle else (request, now))):
            live.append(request)
            story.end_s[request] = arrival[request] + stay[request]
            story.owned_from.append((request, arrival[request], allocator.owned(request)))
            plan(story.end_s[request], "depart", request)
            plan_growth(request)
        else:
            story.fate[request] = REFUSED
            story.refusals.append(found)

    def grow(request: int, now_s: float) -> None:
        while request in live and not allocator.grow(request, allocator.owned(request) + 1):
            youngest = live.pop()
            allocator.release(youngest)
            story.fate[youngest], story.end_s[youngest] = DROPPED, now_s
            story.drops.append(youngest)
        if request in live:
            story.owned_from.append((request, now_s, allocator.owned(request)))
            plan_growth(request)

    plan_arrival_after(-1)
    while planned:
        now_s, _, _, what, request = heapq.heappop(planned)
        if what == "arrive":
            arrive(request)
            plan_arrival_after(request)
        elif what == "grow":
            grow(request, now_s)
        elif request in live:
            live.remove(request)
            allocator.release(request)
    return story


def assert_same(story: Story, log: PlacementLog) -> None:
    """The log tells this story, to the last bit."""
    assert log.outcome.tolist() == story.fate
    assert log.end_s.tolist() == story.end_s
    assert [tuple(row) for row in log.refusals.tolist()] == story.refusals
    assert [i for i, fate in enumerate(log.outcome) if fate == DROPPED] == sorted(story.drops)
    owned: dict[int, int] = {}
    grown = []
    for request, time_s, slots in story.owned_from:
        if request in owned:
            grown.append((request, time_s, slots - owned[request]))
        owned[request] = slots
    first = {request: slots for request, _, slots in reversed(story.owned_from)}
    assert log.owned.tolist() == [first.get(i, 0) for i in range(len(log.owned))]
    assert [(int(g["request"]), float(g["time_s"]), int(g["slots"])) for g in log.growths] == grown


def exact_means(
    trace: Trace, residence_s: Floats, story: Story, capacity: int, growth: str, edges_s: Floats
) -> dict[str, list[Fraction]]:
    """Means of the four shares over each interval, in exact fractions: every token and every slot by itself."""
    edges = [Fraction(e) for e in edges_s.tolist()]
    shares: dict[str, list[Fraction]] = {name: [] for name in ("used", "reserved", "internal", "free")}
    spans = [span for request in range(len(trace)) for span in _spans(trace, residence_s, story, growth, request)]
    for low, high in pairwise(edges):
        sums = dict.fromkeys(("used", "reserved", "internal"), Fraction(0))
        for begin, end, counts in spans:
            overlap = min(end, high) - max(begin, low)
            if overlap > 0:
                for name, count in counts.items():
                    sums[name] += overlap * count
        whole = (high - low) * capacity
        for name, value in sums.items():
            shares[name].append(value / whole)
        shares["free"].append(1 - sum(sums.values()) / whole)
    return shares


def _spans(
    trace: Trace, residence_s: Floats, story: Story, growth: str, request: int
) -> list[tuple[Fraction, Fraction, dict[str, int]]]:
    """(begin, end, what it holds), between the moments at which anything about one request changes."""
    prompt, output = int(trace.prompt_tokens[request]), int(trace.output_tokens[request])
    arrival, stay = Fraction(float(trace.arrival_s[request])), Fraction(float(residence_s[request]))
    given = [(Fraction(time_s), slots) for owner, time_s, slots in story.owned_from if owner == request]
    end, spans = Fraction(story.end_s[request]), []
    tokens = [(arrival + stay * number / output, prompt + number) for number in range(output)]
    moments = sorted({at for at, _ in given} | {at for at, _ in tokens if at < end} | {end})
    for begin, until in pairwise(moments):
        slots = [count for at, count in given if at <= begin][-1]
        written = [count for at, count in tokens if at <= begin][-1] if growth == "token" else prompt + output
        filled = min(slots, prompt + output)
        held = {"used": written, "reserved": filled - written, "internal": slots - filled}
        spans.append((begin, until, held))
    return spans


@st.composite
def cases(draw: st.DrawFn, most_requests: int = 14, most_tokens: int = 14) -> tuple[Trace, Floats]:
    """Small traces with residences; half of them on a coarse grid of decimal times, where most things are ties."""
    count = draw(st.integers(1, most_requests))
    many: Any = {"min_size": count, "max_size": count}
    times: st.SearchStrategy[float] = draw(
        st.sampled_from([st.integers(0, 12).map(lambda k: k / 10), st.floats(0, 3), st.just(0.0)])
    )
    stays = draw(st.sampled_from([st.integers(1, 20).map(lambda k: k / 10), st.floats(0.01, 4)]))
    lengths = st.integers(1, most_tokens)
    arrival, residence = sorted(draw(st.lists(times, **many))), draw(st.lists(stays, **many))
    trace = Trace(
        np.array(arrival), np.array(draw(st.lists(lengths, **many))), np.array(draw(st.lists(lengths, **many)))
    )
    return trace, np.array(residence)
