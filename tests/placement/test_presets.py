"""The presets against the figures they were made to reproduce: five replications, the default seed.

A figure agrees if it lies in Student's 99% interval of ours, widened by half of its own last digit. Where it comes
with an interval of its own, the two must overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import stdtrit

from pagesim.sim.config import PoolConfig, RunConfig
from pagesim.sim.result import AllocatorResult, RunResult
from pagesim.sim.run import run
from pagesim.sim.stats import interval, share
from pagesim.sim.workload import PRESETS


@pytest.fixture(scope="module")
def moderate() -> RunResult:
    config = RunConfig(load="moderate")
    return RunResult.of(config, run(config))


@pytest.fixture(scope="module")
def high() -> RunResult:
    config = RunConfig(load="high", allocators=("exact-fit", "paged"))
    return RunResult.of(config, run(config))


def assert_agrees(values: Sequence[float], figure: float, digit: float, its_half: float = 0.0) -> None:
    half = float(stdtrit(len(values) - 1, 0.995)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    assert abs(float(np.mean(values)) - figure) <= half + digit / 2 + its_half, f"{np.mean(values)} +- {half}: {figure}"


def of(result: RunResult, name: str) -> AllocatorResult:
    return result.allocators[name]


def test_moderate_is_1_18_erlangs_a_slot(moderate: RunResult) -> None:
    assert (PRESETS["moderate"].erlangs, PRESETS["moderate"].per) == (1.18, "slot")
    assert moderate.pool.reservations == 453
    assert moderate.trace.rate_per_s == pytest.approx(1.18 * 453), "residence is 1 s in the mean"
    assert [row["requests"] for row in moderate.trace.replications] == [9087] * 5
    assert pytest.approx(9087, abs=1) == 17 * 1.18 * 453


def test_moderate_reservation_refuses_14_percent_at_95_percent_occupied(moderate: RunResult) -> None:
    reservation = of(moderate, "reservation")
    assert_agrees(reservation.per_run["refused_share"], 0.140, 0.001, its_half=0.011)
    assert_agrees(reservation.per_run["occupied"], 0.951, 0.001)
    used = [u / o for u, o in zip(reservation.per_run["used"], reservation.per_run["occupied"], strict=True)]
    assert_agrees(used, 0.238, 0.001)
    steady = reservation.steady_occupied
    assert steady.high is not None
    widened = (steady.high - steady.mean) * float(stdtrit(4, 0.995) / stdtrit(4, 0.975))
    assert abs(steady.mean - 0.986) <= widened + 0.0005


def test_moderate_the_other_two_admit_all(moderate: RunResult) -> None:
    for name in ("exact-fit", "paged"):
        assert (of(moderate, name).refused, of(moderate, name).at_refusal) == (0, None)
        assert of(moderate, name).admitted == of(moderate, name).requests == 5 * 9087


def test_high_is_1_40_of_the_pool_in_tokens(high: RunResult) -> None:
    assert (PRESETS["high"].erlangs, PRESETS["high"].per) == (1.40, "pool")
    requests = high.trace.replications[0]["requests"]
    assert isinstance(requests, int)
    assert requests == pytest.approx(43_269, rel=0.001)
    assert {row["requests"] for row in high.trace.replications} == {43_253}


def test_high_exact_fit_refuses_at_87_percent(high: RunResult) -> None:
    exact = of(high, "exact-fit")
    assert_agrees(exact.per_run["refused_share"], 0.031, 0.001)
    assert_agrees(exact.per_run["occupied"], 0.872, 0.001)
    assert exact.at_refusal is not None and 0.91 <= exact.at_refusal.occupied_mean <= 0.93
    assert exact.at_refusal.share_awkward == 1, "never for want of memory: it lay in pieces"
    assert exact.at_refusal.unusable_mean == pytest.approx(1 - exact.at_refusal.occupied_mean)
    assert exact.internal.mean == 0


def test_high_paged_refuses_more_at_95_percent_and_is_full_when_it_does(high: RunResult) -> None:
    paged = of(high, "paged")
    assert_agrees(paged.per_run["refused_share"], 0.095, 0.001)
    assert_agrees(paged.per_run["occupied"], 0.948, 0.001)
    assert paged.at_refusal is not None and paged.at_refusal.occupied_mean > 0.999
    assert paged.at_refusal.unusable_mean == 0
    exact = of(high, "exact-fit").per_run["refused_share"]
    more = interval([p - e for p, e in zip(paged.per_run["refused_share"], exact, strict=True)])
    assert more.low is not None and more.low > 0, "more requests than exact fit, on the same traces"


def test_both_kinds_see_the_same_traces(moderate: RunResult) -> None:
    used = [of(moderate, name).per_run["used"] for name in ("exact-fit", "paged")]
    assert used[0] == pytest.approx(used[1]), "both admit all, so the tokens are the same"
    assert len({row["sha256"] for row in moderate.trace.replications}) == 5


def test_an_interval_is_students() -> None:
    """1, 2, 3, 4, 5: mean 3, deviation sqrt(2.5), t(4) = 2.776445."""
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764451 * math.sqrt(2.5 / 5)
    assert (found.mean, found.low, found.high) == (3.0, pytest.approx(3 - half), pytest.approx(3 + half))
    assert interval([0.25]).low is None and interval([0.25]).as_json() == {"mean": 0.25, "low": None, "high": None}
    near_zero, near_one = share([0.0, 0.02]), share([0.99, 1.0])
    assert (near_zero.low, near_one.high) == (0.0, 1.0)
    assert interval([0.0, 0.02]).low != 0


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(6)
    found = [interval(rng.normal(7, 2, 5).tolist()) for _ in range(2_000)]
    covered = sum(f.low <= 7 <= f.high for f in found if f.low is not None and f.high is not None) / 2_000
    assert abs(covered - 0.95) < 3.3 * math.sqrt(0.95 * 0.05 / 2_000)


def test_the_pool_of_the_presets_is_the_notes() -> None:
    assert (PoolConfig().tokens, PoolConfig().num_blocks, PoolConfig().bytes_per_token) == (929_024, 58_064, 12_288)
