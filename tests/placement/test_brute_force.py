"""The SimPy experiment against a plain heap loop: fates, ends, refusals, drops, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heap_simulator import assert_same, cases, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.sim.allocators import Paged, Pool, Reservation, allocator_class, builtin_names
from pagesim.sim.placement import ADMITTED, DROPPED, REFUSED, REJECTED, place_all
from pagesim.sim.trace import Trace

POOLS = st.sampled_from([Pool(40, 22, 3), Pool(64, 28, 4), Pool(70, 20, 1), Pool(33, 28, 8)])


@pytest.mark.parametrize("growth", ["final", "token"])
@pytest.mark.parametrize("name", builtin_names())
@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases(), POOLS)
def test_same_story(name: str, growth: Any, case: Any, pool: Pool) -> None:
    make = allocator_class(name)
    story = simulate(*case, make(pool), growth)
    allocator = make(pool)
    assert_same(story, place_all(*case, allocator, growth, check=True))
    assert allocator.free_tokens == pool.capacity_tokens and not allocator.tokens, "everyone has left"
    assert_same(story, place_all(*case, make(pool), growth))


def trace_of(arrival: list[float], prompt: list[int], output: list[int]) -> Trace:
    return Trace(np.array(arrival), np.array(prompt), np.array(output))


def test_a_departure_makes_room_for_an_arrival_at_the_same_instant() -> None:
    for first, stay in ((0.0, 1.0), (0.1, 0.2), (0.3, 1.1)):
        trace = trace_of([first, first + stay, first + stay], [4, 4, 4], [4, 4, 4])
        log = place_all(trace, np.array([stay, 5.0, 5.0]), Reservation(Pool(8, 8, 1)))
        assert log.outcome.tolist() == [ADMITTED, ADMITTED, REFUSED]


def test_arrivals_at_a_time_that_no_sum_of_delays_hits() -> None:
    """0.1 + (0.7 - 0.1) is not 0.7 in binary: the request that leaves at 0.7 must still make room for the next."""
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(400):
        begin, then = np.sort(rng.integers(1, 40, 2)) / 10
        missed += begin + (then - begin) != then
        trace = trace_of([begin, then], [1, 1], [1, 1])
        stay = np.array([then - begin, 1.0])
        wanted = ADMITTED if begin + stay[0] <= then else REFUSED
        log = place_all(trace, stay, Reservation(Pool(2, 2, 1)))
        assert log.outcome[1] == wanted and log.end_s[0] == begin + stay[0]
    assert missed > 0


def test_a_batch_at_one_instant_is_placed_in_the_order_of_the_trace() -> None:
    trace = trace_of([2.0] * 5, [6, 5, 3, 1, 1], [2, 2, 2, 1, 1])
    log = place_all(trace, np.ones(5), Paged(Pool(16, 8, 1)))
    assert log.outcome.tolist() == [ADMITTED, ADMITTED, REFUSED, REFUSED, REFUSED]
    assert log.refusals.tolist() == [(2, 5, 1, 1), (3, 2, 1, 1), (4, 2, 1, 1)]


def test_one_request_and_one_too_long_for_the_server() -> None:
    log = place_all(trace_of([0.0], [3], [1]), np.array([2.5]), Paged(Pool(8, 8, 4)))
    assert (log.outcome.tolist(), log.end_s.tolist(), log.owned.tolist()) == ([ADMITTED], [2.5], [4])
    log = place_all(trace_of([1.5], [8], [1]), np.array([2.5]), Paged(Pool(8, 8, 4)))
    assert (log.outcome.tolist(), log.end_s.tolist(), log.owned.tolist()) == ([REJECTED], [1.5], [0])
    assert len(log.refusals) == 0


def test_the_youngest_is_dropped_and_the_one_that_asks_is_one_of_them() -> None:
    """Three that grow to nine, in nine slots: in the end the oldest has the pool to itself."""
    trace = trace_of([0.0, 0.25, 0.5], [1, 1, 1], [8, 8, 8])
    log = place_all(trace, np.full(3, 8.0), Paged(Pool(9, 9, 1)), "token", check=True)
    assert log.outcome.tolist() == [ADMITTED, DROPPED, DROPPED]
    # each holds 3 at 2.5 s. At 3 s the oldest finds no slot and the youngest goes; its three last until 4 s; the second
    # asks at 4.25 s and is the youngest itself
    assert log.end_s.tolist() == [8.0, 4.25, 3.0]
    alone = place_all(trace_of([0.0], [1], [8]), np.full(1, 8.0), Paged(Pool(9, 9, 1)), "token")
    assert alone.growths["time_s"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "the last token needs no slot"


def test_the_requester_itself_is_dropped_when_it_is_the_youngest() -> None:
    trace = trace_of([0.0, 0.5], [4, 1], [1, 4])
    log = place_all(trace, np.array([9.0, 4.0]), Paged(Pool(5, 5, 1)), "token", check=True)
    assert log.outcome.tolist() == [ADMITTED, DROPPED]
    assert log.end_s.tolist() == [9.0, 1.5] and len(log.growths) == 0


def test_compaction_moves_the_tokens_that_are_there() -> None:
    """The second holds 2 and grows by one every 2 s; at 5 s the third makes it slide down, 4 tokens long."""
    trace = trace_of([0.0, 0.0, 5.0], [1, 2, 3], [3, 4, 3])
    for growth, moved in (("token", 4), ("final", 6)):
        allocator = allocator_class("exact-fit:first:compact")(Pool(12, 12, 1))
        log = place_all(trace, np.array([1.0, 8.0, 1.0]), allocator, growth, check=True)  # type: ignore[arg-type]
        assert log.outcome.tolist() == [ADMITTED] * 3 and log.moved_tokens == moved


def test_progress_is_told_while_it_runs() -> None:
    told: list[int] = []
    trace = trace_of(np.arange(3500.0).tolist(), [1] * 3500, [1] * 3500)
    place_all(trace, np.full(3500, 0.5), Paged(Pool(8, 8, 4)), on_progress=told.append)
    assert set(told) == {1000} and len(told) in (3, 4)
