"""Equal requests in s slots are Erlang's loss system: M/G/s/s, whose loss does not depend on the law of residence.

A. K. Erlang, 1917; insensitivity: B. A. Sevastyanov, 1957.
"""

from __future__ import annotations

import numpy as np
import pytest
from replications import RESIDENCES, assert_agrees, poisson_runs

from pagesim.sim.allocators import AnyAllocator, Pool, allocator_class
from pagesim.sim.residence import Residence
from pagesim.sim.trace import Trace
from pagesim.sim.workload import Load, trace_moments

SLOTS, ERLANGS, LONGEST = 12, 10.0, 16


def erlang_loss(slots: int, erlangs: float) -> float:
    """B(0) = 1; B(s) = a B(s - 1) / (s + a B(s - 1))."""
    loss = 1.0
    for s in range(1, slots + 1):
        loss = erlangs * loss / (s + erlangs * loss)
    return loss


def test_the_formula_itself() -> None:
    """Published values: one server halves a load of 1; B(10, 5) = 0.018385."""
    assert erlang_loss(1, 1.0) == 0.5
    assert erlang_loss(2, 1.0) == pytest.approx(0.2)
    assert erlang_loss(10, 5.0) == pytest.approx(0.018385, abs=1e-6)


SYSTEMS = {
    "reservation": (Pool(SLOTS * LONGEST + 7, LONGEST, 4), lambda rng, count: rng.integers(2, LONGEST + 1, count)),
    "exact-fit": (Pool(SLOTS * 5, LONGEST, 4), lambda _, count: np.full(count, 5)),
    "buddy": (Pool(8 * SLOTS, LONGEST, 4), lambda rng, count: rng.integers(5, 9, count)),
    "paged": (Pool(SLOTS * 12 + 3, LONGEST, 4), lambda rng, count: rng.integers(9, 13, count)),
}


CASES = [
    *(("reservation", law) for law in RESIDENCES),
    *(("paged", law) for law in RESIDENCES),
    ("exact-fit", "lognormal"),
    ("buddy", "exponential"),
]


@pytest.mark.parametrize(("name", "law"), CASES)
def test_refusals_are_erlangs_loss_whatever_the_law_of_residence(name: str, law: str) -> None:
    pool, lengths = SYSTEMS[name]

    def make() -> AnyAllocator:
        return allocator_class(name)(pool)

    runs = list(poisson_runs(make, ERLANGS, lengths, RESIDENCES[law]))
    loss = erlang_loss(SLOTS, ERLANGS)
    assert_agrees([run.refused_share for run in runs], loss, 0.1, f"{name}, {law} residence, loss")
    busy = ERLANGS * (1 - loss) * runs_slot(name) / pool.capacity_tokens
    assert_agrees([float(run.means.occupied[0]) for run in runs], busy, 0.05, f"{name}, {law} residence, occupied")


def runs_slot(name: str) -> int:
    """Slots that one request owns."""
    return {"reservation": LONGEST, "exact-fit": 5, "buddy": 8, "paged": 12}[name]


def test_a_load_per_slot_is_a_number_of_erlangs() -> None:
    """The rate that Load works out, put into Erlang's system, gives the loss at that many erlangs a slot."""
    pool = Pool(SLOTS * LONGEST, LONGEST, 4)
    lengths = np.arange(2, LONGEST + 1)
    m = trace_moments(Trace(np.zeros(len(lengths)), lengths - 1, np.ones(len(lengths))), LONGEST)
    residence = Residence(0.25, 0.25)
    rate = Load(0.9, "slot").rate_per_s(residence, m, pool.capacity_tokens, LONGEST)
    runs = poisson_runs(
        lambda: allocator_class("reservation")(pool),
        rate,
        lambda rng, count: rng.integers(2, LONGEST + 1, count),
        lambda _, count: np.full(count, 0.25),
        proportional=True,
    )
    assert_agrees([run.refused_share for run in runs], erlang_loss(SLOTS, 0.9 * SLOTS), 0.1, "0.9 erlangs a slot")
