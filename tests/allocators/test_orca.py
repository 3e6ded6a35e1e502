"""The baselines of the PagedAttention paper: what each asks for, and that Orca (Max) needs no allocator of its own."""

import random

import pytest

from pagesim.sim.allocators import Buddy, Pool, Reservation
from pagesim.sim.allocators.orca import OrcaPow2, OrcaPow2Unbounded

PAPER = Pool(15_728, 2048, 16)


@pytest.mark.parametrize(
    ("prompt", "answer", "asked", "unbounded"),
    [
        (10, 25, 42, 42),  # the paper's example: 25 tokens get 32 slots
        (10, 32, 42, 42),
        (10, 33, 74, 74),
        (10, 1, 11, 11),
        (1024, 1024, 2048, 2048),
        (1024, 1000, 2048, 2048),
        (100, 1100, 2048, 2148),
        (7, 0, 7, 7),
    ],
)
def test_what_pow2_asks_for(prompt, answer, asked, unbounded):
    assert OrcaPow2(PAPER).asked(prompt, prompt + answer) == asked
    assert OrcaPow2Unbounded(PAPER).asked(prompt, prompt + answer) == unbounded


def test_and_the_run_that_it_gets():
    allocator = OrcaPow2(PAPER)
    assert allocator.place(0, 100, 400) and allocator.owned(0) == 1024  # 100 and 512
    assert allocator.place(1, 1, 2) and allocator.owned(1) == 2
    wide = OrcaPow2Unbounded(PAPER)
    assert wide.place(0, 100, 1200) and wide.owned(0) == 4096  # 100 and 2,048
    for one in (allocator, wide):
        one.check()


def test_a_request_never_asks_for_more_than_an_empty_pool_has():
    pool = Pool(12, 10, 1)  # the largest run is 8
    for kind in (OrcaPow2, OrcaPow2Unbounded):
        allocator = kind(pool)
        for tokens in range(1, allocator.largest_request_tokens + 1):
            for final in range(tokens, allocator.largest_request_tokens + 1):
                assert allocator.place(0, tokens, final), (kind, tokens, final)
                allocator.check()
                allocator.release(0)


def test_max_by_a_buddy_system_is_a_reservation():
    """A context that is a power of two: the same number of runs at the same addresses, whatever comes and goes."""
    buddy, reservation, rng, live = Buddy(PAPER), Reservation(PAPER), random.Random(1), []
    places = {reservation.pool.max_model_len * slot for slot in range(7)}
    for owner in range(500):
        placed = buddy.place(owner, 1, 2048)
        assert reservation.place(owner, 1) == placed
        if placed:
            live.append(owner)
        assert {next(iter(buddy.extents(one))).start for one in live} <= places
        assert len(live) <= 7 and buddy.free_tokens == reservation.free_tokens
        while live and rng.random() < 0.4:
            gone = live.pop(rng.randrange(len(live)))
            buddy.release(gone)
            reservation.release(gone)
    assert placed is False or len(live) <= 7
