"""Requests of several lengths in one pool without pieces are the multi-rate loss model, solved by a recursion.

J. S. Kaufman, Blocking in a shared resource environment, 1981; J. W. Roberts, 1981. It holds for any law of residence
in each class, so for a residence proportional to the length too.
"""

from __future__ import annotations

import numpy as np
import pytest
from replications import RESIDENCES, assert_agrees, poisson_runs

from pagesim.sim.allocators import Pool, allocator_class, builtin_names
from pagesim.sim.measures import length_edges

LENGTHS, PARTS = np.array([2, 5, 9]), np.array([0.5, 0.3, 0.2])  # one in each bin of refused_by_length
CAPACITY, LONGEST, RATE_PER_S = 40, 15, 1.3


def kaufman_roberts(capacity: int, sizes: list[int], erlangs: list[float]) -> list[float]:
    """Loss of each class: j q(j) = sum of erlangs * size * q(j - size); lost if fewer than its size are free."""
    q = [1.0]
    for j in range(1, capacity + 1):
        q.append(sum(a * b * q[j - b] for a, b in zip(erlangs, sizes, strict=True) if j >= b) / j)
    return [sum(q[capacity - b + 1 :]) / sum(q) for b in sizes]


def test_the_recursion_itself() -> None:
    """One class of size 1 is Erlang's; and two classes in three slots, summed by hand over all states."""
    assert kaufman_roberts(2, [1], [1.0]) == [pytest.approx(0.2)]
    # states (n1, n2) with n1 + 2 n2 <= 3, a = 1 each: weights 1, 1, 1/2, 1/6, 1, 1
    weights = {(0, 0): 1, (1, 0): 1, (2, 0): 1 / 2, (3, 0): 1 / 6, (0, 1): 1, (1, 1): 1}
    whole = sum(weights.values())
    assert kaufman_roberts(3, [1, 2], [1.0, 1.0]) == [
        pytest.approx((weights[3, 0] + weights[1, 1]) / whole),
        pytest.approx((weights[3, 0] + weights[1, 1] + weights[2, 0] + weights[0, 1]) / whole),
    ]


CASES = [
    ("paged", 1, "constant"),
    ("paged", 1, "exponential"),
    ("paged", 1, "lognormal"),
    ("paged", 4, "constant"),
    ("exact-fit:first:compact", 1, "constant"),
    ("exact-fit:best:compact", 1, "exponential"),
]


@pytest.mark.parametrize(("name", "block_size", "law"), CASES)
def test_refusals_by_length_are_those_of_the_recursion(name: str, block_size: int, law: str) -> None:
    pool = Pool(CAPACITY + block_size - 1, LONGEST, block_size)
    erlangs = (RATE_PER_S * PARTS * LENGTHS).tolist()  # residence = length seconds in the mean
    sizes = (-(-LENGTHS // block_size)).tolist()
    losses = kaufman_roberts(CAPACITY // block_size, sizes, erlangs)
    runs = list(
        poisson_runs(
            lambda: allocator_class(name)(pool),
            RATE_PER_S,
            lambda rng, count: rng.choice(LENGTHS, count, p=PARTS),
            RESIDENCES[law],
            proportional=True,
        )
    )
    bins = np.searchsorted(length_edges(LONGEST), LENGTHS, side="right") - 1
    for length, loss, bin_ in zip(LENGTHS, losses, bins, strict=True):
        shares = [run.refused_by_length[bin_] / run.offered_by_length[bin_] for run in runs]
        assert_agrees(shares, loss, 0.15, f"{name}, blocks of {block_size}, {law}, length {length}")
    carried = sum(a * b * (1 - loss) for a, b, loss in zip(erlangs, sizes, losses, strict=True))
    occupied = carried * block_size / pool.capacity_tokens
    assert_agrees([float(run.means.occupied[0]) for run in runs], occupied, 0.05, "occupied")


def test_without_compaction_pieces_cost_something() -> None:
    """Plain exact fit refuses the longest more often than the recursion says: the test above can fail."""
    erlangs = (RATE_PER_S * PARTS * LENGTHS).tolist()
    loss = kaufman_roberts(CAPACITY, LENGTHS.tolist(), erlangs)[-1]
    runs = poisson_runs(
        lambda: allocator_class("exact-fit:worst")(Pool(CAPACITY, LONGEST, 1)),
        RATE_PER_S,
        lambda rng, count: rng.choice(LENGTHS, count, p=PARTS),
        RESIDENCES["constant"],
        proportional=True,
    )
    with pytest.raises(AssertionError, match="by the formula"):
        assert_agrees([run.refused_by_length[3] / run.offered_by_length[3] for run in runs], loss, 0.15, "worst fit")


def test_every_compacting_fit_is_paging_by_single_tokens() -> None:
    """Request for request: what fits in all is placed, and pieces do not matter, to the last bit of the result."""
    names = ["paged", *(name for name in builtin_names() if name.endswith(":compact"))]
    stories = []
    for name in names:
        runs = poisson_runs(
            lambda name=name: allocator_class(name)(Pool(CAPACITY, LONGEST, 1)),  # type: ignore[misc]
            RATE_PER_S,
            lambda rng, count: rng.choice(LENGTHS, count, p=PARTS),
            RESIDENCES["lognormal"],
            proportional=True,
        )
        run = next(runs)
        stories.append((run.refused, run.refused_by_length.tolist(), run.means.occupied.tolist()))
    assert len(names) == 5 and stories[0][0] > 0
    assert all(story == stories[0] for story in stories)
