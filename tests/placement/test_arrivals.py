"""Arrival processes: mean rate and burstiness within their standard errors, at a fixed seed; bad texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pagesim.sim.arrivals import Batches, OnOff, Renewal, parse_arrivals
from pagesim.sim.errors import UsageError

COUNT, RATE = 40_000, 5.0
ERRORS = 3.3  # standard errors that a figure may be off: one time in a thousand


def times(text: str, seed: int = 1, count: int = COUNT, rate: float = RATE) -> Any:
    return parse_arrivals(text).times_s(np.random.default_rng(seed), count, rate)


def gaps(text: str) -> Any:
    return np.diff(times(text), prepend=0.0)


@pytest.mark.parametrize(("text", "cv"), [("poisson", 1), ("gamma:0.3", 0.3), ("gamma:1", 1), ("gamma:2.5", 2.5)])
def test_renewals_have_their_rate_and_their_coefficient_of_variation(text: str, cv: float) -> None:
    found = gaps(text)
    assert abs(found.mean() - 1 / RATE) <= ERRORS * cv / RATE / math.sqrt(COUNT)
    # a sample variance has relative variance (kurtosis - 1) / N, and a gamma's kurtosis is 3 + 6 cv^2
    relative = math.sqrt((2 + 6 * cv**2) / COUNT)
    assert abs((found.std() * RATE / cv) ** 2 - 1) <= ERRORS * relative
    correlation = float(np.corrcoef(found[1:], found[:-1])[0, 1])
    assert abs(correlation) <= ERRORS / math.sqrt(COUNT), "gaps are independent"


def test_poisson_gaps_are_exponential() -> None:
    from scipy.stats import kstest

    assert kstest(gaps("poisson"), "expon", args=(0, 1 / RATE)).pvalue > 0.001
    assert kstest(gaps("gamma:2.5"), "expon", args=(0, 1 / RATE)).pvalue < 0.001, "the test can tell"


def test_gamma_at_one_is_poisson_and_periodic_is_exact() -> None:
    assert Renewal(1) == parse_arrivals("poisson") == parse_arrivals("gamma:1")
    assert times("periodic", count=4, rate=2.0).tolist() == [0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize("size", [1, 4, 7])
def test_batches_come_together_at_the_same_mean_rate(size: int) -> None:
    found = times(f"batch:{size}")
    _, counts = np.unique(found, return_counts=True)
    assert set(counts[:-1]) == {size} and counts[-1] == (COUNT % size or size)
    batches = len(counts)
    assert abs(found[-1] - batches * size / RATE) <= ERRORS * math.sqrt(batches) * size / RATE
    assert Batches(size) == parse_arrivals(f"batch:{size}")


@pytest.mark.parametrize(("on_s", "off_s"), [(2.0, 6.0), (5.0, 0.5), (0.3, 0.3)])
def test_on_off_has_its_mean_rate_and_its_duty(on_s: float, off_s: float) -> None:
    """N arrivals end at N/rate in the mean; the variance is that of the time on, over duty^2, and of the pauses."""
    found, duty = times(f"on-off:{on_s}:{off_s}"), on_s / (on_s + off_s)
    time_on = COUNT * duty / RATE
    variance = COUNT * (duty / RATE) ** 2 / duty**2 + time_on / on_s * 2 * off_s**2
    assert abs(found[-1] - COUNT / RATE) <= ERRORS * math.sqrt(variance)
    gap = np.diff(found)
    pause = gap > 20 * duty / RATE  # no gap between arrivals while on is so long
    if off_s == 6.0:
        assert abs(gap[pause].mean() - off_s - 20 * duty / RATE) < 1, "pauses, by their memorylessness"
        busy_share = gap[~pause].sum() / found[-1]
        assert abs(busy_share - duty) < 0.1
    assert OnOff(on_s, off_s) == parse_arrivals(f"on-off:{on_s}:{off_s}")


def test_on_off_is_burstier_than_poisson() -> None:
    def dispersion(text: str) -> float:
        counts = np.bincount((times(text) / 4).astype(int))
        return float(counts.var() / counts.mean())

    assert 0.9 < dispersion("poisson") < 1.1 < 5 < dispersion("on-off:5:15")


@pytest.mark.parametrize("text", ["poisson", "gamma:3", "periodic", "batch:3", "on-off:1:2"])
def test_times_are_in_order_and_start_after_zero(text: str) -> None:
    for count in (1, 2, 1000):
        found = times(text, count=count)
        assert len(found) == count and found[0] > 0 and (np.diff(found) >= 0).all()
    assert np.array_equal(times(text), times(text)) and (text == "periodic" or times(text, 2)[0] != times(text)[0])
    assert times(text, rate=10.0)[-1] == pytest.approx(times(text)[-1] / 2) or text.startswith("on-off")


@pytest.mark.parametrize(
    "text",
    [
        "", "poison", "poisson:2", "periodic:1", "gamma", "gamma:", "gamma:0", "gamma:-1", "gamma:nan", "gamma:inf",
        "gamma:1:2", "gamma:1e-200", "gamma:1e200", "on-off", "on-off:1", "on-off:0:1", "on-off:1:-1", "on-off:1:2:3",
        "batch", "batch:0", "batch:1.5", "batch:-2", "batch:2:3", "batch:x", " poisson", "servegen",
    ],
)  # fmt: skip
def test_bad_texts_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="accepted: poisson, gamma:CV") as refused:
        parse_arrivals(text)
    assert f"'{text}'" in str(refused.value) and "\n" not in str(refused.value)
