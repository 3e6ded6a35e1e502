"""Time averages of the account against exact fractions, summed over every token of every request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heap_simulator import cases, exact_means, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.sim import occupancy as occupancy_module
from pagesim.sim.allocators import Paged, Pool, allocator_class, builtin_names
from pagesim.sim.measures import SERIES_INTERVALS, length_edges, measure
from pagesim.sim.occupancy import occupancy
from pagesim.sim.placement import DROPPED, place_all
from pagesim.sim.trace import Trace

SHARES = ("used", "reserved", "internal", "free")
TOLERANCE = 1e-9

POOLS = st.sampled_from([Pool(40, 22, 3), Pool(64, 28, 4), Pool(70, 20, 1), Pool(33, 28, 8)])
EDGES = st.lists(st.one_of(st.floats(0, 6), st.integers(0, 40).map(lambda k: k / 10)), min_size=2, max_size=6)


def distinct(edges: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """In order, and no two closer than what makes a mean ill-conditioned."""
    kept = sorted(edges)
    kept = [edge for k, edge in enumerate(kept) if k == 0 or edge - kept[k - 1] > 1e-3]
    return np.array(kept if len(kept) > 1 else [kept[0], kept[0] + 1])


@pytest.mark.parametrize("growth", ["final", "token"])
@pytest.mark.parametrize("name", ["reservation", "exact-fit", "exact-fit:next:compact", "buddy", "paged"])
@settings(max_examples=80, deadline=None, derandomize=True)
@given(cases(9, 10), POOLS, EDGES)
def test_means_over_any_intervals_are_exact(name: str, growth: Any, case: Any, pool: Pool, edges: list[float]) -> None:
    edges_s, capacity = distinct(edges), pool.capacity_tokens
    wanted = exact_means(*case, simulate(*case, allocator_class(name)(pool), growth), capacity, growth, edges_s)
    log = place_all(*case, allocator_class(name)(pool), growth)
    got = occupancy(*case, log, capacity, growth, edges_s)
    for share in SHARES:
        values = getattr(got, share)
        assert np.abs(values - np.array([float(exact) for exact in wanted[share]])).max() <= TOLERANCE, share
        assert (values >= -TOLERANCE).all() and (values <= 1 + TOLERANCE).all()
    assert np.abs(sum(getattr(got, share) for share in SHARES) - 1).max() <= TOLERANCE
    assert (got.occupied == got.used + got.reserved + got.internal).all()


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize("growth", ["final", "token"])
def test_many_requests_stay_within_the_pool_and_add_up(name: str, growth: Any) -> None:
    rng = np.random.default_rng(3)
    count = 3_000
    trace = Trace(np.cumsum(rng.exponential(0.1, count)), rng.integers(1, 40, count), rng.integers(1, 40, count))
    residence = trace.total_tokens * rng.uniform(0.05, 0.15, count)
    log = place_all(trace, residence, allocator_class(name)(Pool(1_600, 79, 8)), growth, check=True)
    edges = np.sort(rng.uniform(0, trace.arrival_s[-1], 400))
    got = occupancy(trace, residence, log, 1_600, growth, edges)
    for share in SHARES:
        values = getattr(got, share)
        assert (values >= -TOLERANCE).all() and (values <= 1 + TOLERANCE).all(), share
    assert np.abs(got.used + got.reserved + got.internal + got.free - 1).max() <= TOLERANCE
    assert 0.5 < got.occupied.mean() < 1
    whole = occupancy(trace, residence, log, 1_600, growth, edges[[0, -1]])
    for share in SHARES:
        parts = (getattr(got, share) * np.diff(edges)).sum() / (edges[-1] - edges[0])
        assert getattr(whole, share)[0] == pytest.approx(parts, abs=TOLERANCE), "the whole is the sum of its parts"


def test_growing_tokens_summed_in_chunks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    trace = Trace(np.sort(rng.uniform(0, 5, 40)), rng.integers(1, 9, 40), rng.integers(1, 60, 40))
    residence, edges = rng.uniform(0.1, 3, 40), np.linspace(0, 6, 13)
    log = place_all(trace, residence, Paged(Pool(120, 70, 4)), "token")
    assert (log.outcome == DROPPED).any()
    at_once = occupancy(trace, residence, log, 120, "token", edges)
    for chunk in (1, 7, 100):
        monkeypatch.setattr(occupancy_module, "CHUNK_TOKENS", chunk)
        in_chunks = occupancy(trace, residence, log, 120, "token", edges)
        assert in_chunks.used == pytest.approx(at_once.used, abs=TOLERANCE)


def test_a_request_by_hand() -> None:
    """3 of prompt and 4 of output in blocks of 4, for 8 s: 3, 4, 5, 6 tokens, 2 s each; 4 slots, then 8 from 4 s on."""
    trace, residence = Trace(np.zeros(1), np.array([3]), np.array([4])), np.array([8.0])
    log = place_all(trace, residence, Paged(Pool(16, 8, 4)), "token")
    got = occupancy(trace, residence, log, 16, "token", np.array([0.0, 2, 4, 6, 8, 10]))
    assert (got.used * 16).tolist() == [3, 4, 5, 6, 0]
    assert (got.internal * 16).tolist() == [0, 0, 1, 1, 0], "of 8 slots 7 will ever be asked for"
    assert (got.reserved * 16).tolist() == [1, 0, 2, 1, 0]
    assert (got.free * 16).tolist() == [12, 12, 8, 8, 16]


def test_the_window_leaves_out_the_warm_up() -> None:
    """Ten requests, one a second, each for half of one: a warm-up of a half leaves out five of them."""
    trace = Trace(np.arange(1.0, 11), np.full(10, 3), np.full(10, 1))
    residence = np.full(10, 0.5)
    log = place_all(trace, residence, Paged(Pool(8, 8, 4)))
    cold, warm = (measure(trace, residence, log, 8, 8, "final", warmup) for warmup in (0.0, 0.55))
    assert (cold.requests, warm.requests) == (10, 5)
    assert cold.means.edges_s.tolist() == [0, 10] and warm.means.edges_s.tolist() == [5.5, 10]
    assert cold.means.used[0] == pytest.approx(9 * 0.5 * 4 / (10 * 8))
    assert warm.means.used[0] == pytest.approx(4 * 0.5 * 4 / (4.5 * 8))
    assert cold.steady.edges_s.tolist() == [5, 10] and warm.steady.edges_s.tolist() == [5.5, 10]
    assert len(cold.series.used) == SERIES_INTERVALS and cold.series.edges_s[-1] == 10
    assert cold.series.used.mean() == pytest.approx(cold.means.used[0])


def test_all_at_once_at_time_zero_is_measured_to_the_last_end() -> None:
    trace = Trace(np.zeros(3), np.full(3, 3), np.full(3, 1))
    residence = np.array([1.0, 2.0, 4.0])
    figures = measure(trace, residence, place_all(trace, residence, Paged(Pool(8, 8, 4))), 8, 8, "final", 0.0)
    assert (figures.admitted, figures.refused) == (2, 1)
    assert figures.means.edges_s.tolist() == [0, 2] and figures.means.used[0] == pytest.approx(6 / 8 - 2 / 8 + 1 / 4)
    assert figures.at_refusal is not None and figures.at_refusal.occupied_first == 1


def test_what_refusals_found_by_hand() -> None:
    """A pool of 10, of which two requests of 4 hold 8: asking 3 finds 2 free, asking 2 of paged blocks of 4 too."""
    trace = Trace(np.array([0.0, 0, 1, 1]), np.array([3, 3, 2, 1]), np.array([1, 1, 1, 1]))
    residence = np.full(4, 4.0)
    log = place_all(trace, residence, Paged(Pool(10, 4, 4)))
    assert log.refusals.tolist() == [(2, 3, 2, 2), (3, 2, 2, 2)]
    found = measure(trace, residence, log, 10, 4, "final", 0.0).at_refusal
    assert found is not None
    assert found.occupied_mean == pytest.approx(0.8) and found.asked_mean == pytest.approx(0.25)
    assert found.unusable_mean == pytest.approx(0.1) and found.share_awkward == 0.5, "only the second was awkward"
    assert found.fragmentation_mean == 0
    figures = measure(trace, residence, log, 10, 4, "final", 0.0)
    assert length_edges(4).tolist() == [1, 2, 4, 8]
    assert figures.offered_by_length.tolist() == [0, 2, 2] and figures.refused_by_length.tolist() == [0, 2, 0]
    assert len(figures.occupied_at_refusal) == 2 and figures.refused_share == 0.5


def test_the_series_of_external_waste_is_what_the_refused_of_each_interval_found() -> None:
    """Three of two slots each fill the pool, and the outer ones go: 4 free in two pieces, 3 asked, and then 5."""
    outputs = np.array([1, 1, 1, 2, 4, 1])
    trace = Trace(np.array([0.0, 0.0, 0.0, 1.0, 1.5, 2.0]), np.ones(6, np.int64), outputs)
    residence = np.array([0.5, 9.0, 0.5, 9.0, 9.0, 9.0])
    log = place_all(trace, residence, allocator_class("exact-fit")(Pool(6, 5, 1)), check=True)
    assert log.refusals.tolist() == [(3, 3, 4, 2), (4, 5, 4, 2)]
    figures = measure(trace, residence, log, 6, 5, "final", 0.0)
    wanted = np.zeros(SERIES_INTERVALS)
    wanted[SERIES_INTERVALS // 2 - 1] = 4 / 6  # the interval that ends at 1 s; at 1.5 s too little was free in total
    assert np.abs(figures.unusable_series - wanted).max() <= TOLERANCE


def test_sequences_at_once_by_hand() -> None:
    """Arrivals at 0, 2, 4, 8 s in a pool of three, each for 4 s: over [4, 8], that of 2 s for 2 s, that of 4 for 4."""
    trace = Trace(np.array([0.0, 2.0, 4.0, 8.0]), np.full(4, 5), np.full(4, 5))
    residence_s, pool = np.full(4, 4.0), Pool(30, 10, 1)
    log = place_all(trace, residence_s, Paged(pool))
    assert measure(trace, residence_s, log, 30, 10, "final", 0.0).steady_sequences == (2 + 4) / 4
    small = place_all(trace, residence_s, Paged(Pool(10, 10, 1)))  # who comes at 2 s is refused
    assert measure(trace, residence_s, small, 10, 10, "final", 0.0).steady_sequences == 4 / 4
