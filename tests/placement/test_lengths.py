"""Length distributions and pairs: exact sums on small tables, samples within their errors, truncation; loads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.sim.config import WorkloadConfig
from pagesim.sim.drawing import request_lengths
from pagesim.sim.errors import UsageError
from pagesim.sim.length_pairs import IndependentLengths, LengthPairs, ListedLengths, Moments, TotalLengths
from pagesim.sim.lengths import empirical, fixed, lognormal, note_lengths, parse_lengths, uniform
from pagesim.sim.residence import Residence, decoding, proportional
from pagesim.sim.trace import Trace
from pagesim.sim.workload import HORIZON_RESIDENCES, Load, default_requests, parse_load, scaled_to_rate, trace_moments

COUNT, ERRORS = 60_000, 3.3
NO_LIMIT = 10**6


def drawn(pairs: LengthPairs, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    return pairs.draw(np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2]), COUNT)


PAIRS = {
    "half of a lognormal": TotalLengths(note_lengths(), 0.5),
    "a third of a uniform": TotalLengths(uniform(1, 30), 1 / 3),
    "nearly all of a few": TotalLengths(uniform(1, 5), 0.99),
    "independent": IndependentLengths(uniform(3, 90), lognormal(80, 50, 1, 400, "resample")),
    "a list": ListedLengths(np.array([1, 5, 9, 9]), np.array([7, 2, 2, 30]), "four"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_moments_are_the_means_of_samples(name: str) -> None:
    prompt, output = drawn(PAIRS[name])
    assert prompt.dtype == output.dtype == np.int64 and prompt.min() >= 1 and output.min() >= 1
    p, o, exact = prompt.astype(float), output.astype(float), PAIRS[name].moments(NO_LIMIT)
    assert exact.share == pytest.approx(1, abs=1e-12)
    for moment, sample in {"p": p, "o": o, "pp": p * p, "po": p * o, "oo": o * o}.items():
        error = sample.std() / math.sqrt(COUNT)
        assert abs(sample.mean() - getattr(exact, moment)) <= ERRORS * error, moment


@pytest.mark.parametrize("name", PAIRS)
def test_moments_within_a_limit_are_of_the_samples_within_it(name: str) -> None:
    prompt, output = drawn(PAIRS[name])
    limit = int(np.median(prompt + output))
    within = prompt + output <= limit
    exact = PAIRS[name].moments(limit)
    error = math.sqrt(exact.share * (1 - exact.share) / COUNT)
    assert abs(within.mean() - exact.share) <= ERRORS * error
    p, o = prompt[within].astype(float), output[within].astype(float)
    for moment, sample in {"p": p, "o": o, "pp": p * p, "po": p * o, "oo": o * o}.items():
        error = sample.std() / math.sqrt(len(sample))
        assert abs(sample.mean() - getattr(exact, moment)) <= ERRORS * error + 1e-9, moment


def test_a_limit_below_every_request_is_refused() -> None:
    for pairs in PAIRS.values():
        with pytest.raises(UsageError, match="no request has 1 tokens or less"):
            pairs.moments(1)


def test_moments_of_small_tables_by_hand() -> None:
    """Totals 2, 3, 4 alike; prompts rint(total/2) = 1, 2, 2; outputs 1, 1, 2."""
    third = 1 / 3
    assert TotalLengths(uniform(2, 4), 0.5).moments(NO_LIMIT) == Moments(
        *(pytest.approx(third * sum(row)) for row in ((1, 2, 2), (1, 1, 2), (1, 4, 4), (1, 2, 4), (1, 1, 4)))
    )
    assert IndependentLengths(fixed(3), uniform(1, 2)).moments(NO_LIMIT) == Moments(3.0, 1.5, 9.0, 4.5, 2.5)
    assert ListedLengths(np.array([1, 3]), np.array([5, 1]), "x").moments(NO_LIMIT) == Moments(2.0, 3.0, 5.0, 4.0, 13.0)
    trace = Trace(np.zeros(2), np.array([1, 3]), np.array([5, 1]))
    assert trace_moments(trace, 5) == Moments(3.0, 1.0, 9.0, 3.0, 1.0, 0.5)


def test_a_total_of_one_becomes_one_token_of_each() -> None:
    prompt, output = drawn(TotalLengths(fixed(1), 0.7))
    assert set(prompt) == {1} and set(output) == {1}
    prompt, output = drawn(TotalLengths(fixed(10), 0.7))
    assert set(prompt) == {7} and set(output) == {3}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.integers(0, 2**32))
def test_an_empirical_distribution_is_its_list(lengths: list[int], seed: int) -> None:
    table = empirical(np.array(lengths), "mine")
    assert table.mean == pytest.approx(np.mean(lengths))
    assert table.second_moment == pytest.approx(np.mean(np.array(lengths) ** 2))
    assert table.probabilities.sum() == pytest.approx(1)
    assert set(table.draw(np.random.default_rng(seed), 50)) <= set(lengths)
    ordered = sorted(lengths)
    assert table.median in (ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2])


@pytest.mark.parametrize("table", [note_lengths(), uniform(3, 40), lognormal(80, 50, 5, 120, "resample"), fixed(9)])
def test_a_drawn_length_has_the_probability_of_the_table(table: object) -> None:
    from scipy.stats import chisquare

    assert isinstance(table, type(fixed(1)))
    sample = table.draw(np.random.default_rng(8), COUNT)
    counts = np.array([np.sum(sample == value) for value in table.values])
    assert counts.sum() == COUNT, "nothing but the table's values"
    expected = table.probabilities * COUNT
    often = expected >= 20
    if often.sum() > 1:
        observed, wanted = counts[often], expected[often]
        assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 0.001


def test_the_notes_lengths() -> None:
    """Mean 260 and median 180 before clipping at 2,048, which takes a little off the mean."""
    table = note_lengths()
    assert table.median == 180
    assert 255 < table.mean < 260
    assert (int(table.values[0]), int(table.values[-1])) == (1, 2048)
    wide = lognormal(260, 180, 1, 60_000, "clip")
    assert wide.mean == pytest.approx(260, rel=1e-3), "hardly anything is clipped"
    sigma2 = 2 * math.log(260 / 180)
    assert wide.second_moment == pytest.approx(260**2 * math.exp(sigma2), rel=1e-2)


def test_clipping_puts_what_is_past_the_end_on_the_end_and_resampling_spreads_it() -> None:
    from scipy.stats import lognorm

    clip, again = (lognormal(260, 180, 1, 500, how) for how in ("clip", "resample"))
    past = float(lognorm.sf(500.5, s=math.sqrt(2 * math.log(260 / 180)), scale=180))
    inside = clip.probabilities[1:-1] / clip.probabilities[1:-1].sum()
    assert again.probabilities[1:-1] / again.probabilities[1:-1].sum() == pytest.approx(inside)
    assert clip.probabilities[-1] == pytest.approx(past, rel=0.02) and past > 0.1
    assert again.probabilities[-1] < 0.01
    assert again.mean < clip.mean
    assert "clipped [1, 500]" in clip.label and "drawn again if outside [1, 500]" in again.label


@pytest.mark.parametrize(
    "text",
    [
        "", "lognormal", "lognormal:260", "lognormal:180:260", "lognormal:260:0", "lognormal:inf:1", "lognormal:a:b",
        "lognormal:nan:nan", "lognormal:1e300:1e-300", "lognormal:2e-9:1e-9", "uniform:5", "uniform:5:2", "uniform:0:3",
        "uniform:1.5:3", "fixed:0", "fixed:x", "fixed", "fixed:1:2", "normal:3:4", "uniform:1:1000000000000000",
        "fixed:100000000000000000000000",
    ],
)  # fmt: skip
def test_bad_lengths_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"accepted: |nothing between 1 and 2048") as refused:
        parse_lengths(text, 2048, "resample")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "workload",
    [
        WorkloadConfig(prompt_share=0.0),
        WorkloadConfig(prompt_share=1.0),
        WorkloadConfig(prompt_share=math.nan),
        WorkloadConfig(prompt_lengths="fixed:3"),
        WorkloadConfig(output_lengths="fixed:3"),
        WorkloadConfig(prompt_lengths="fixed:3", output_lengths="fixed:none"),
    ],
)
def test_bad_pairs_are_refused(workload: WorkloadConfig) -> None:
    with pytest.raises(UsageError, match=r"accepted|come together"):
        request_lengths(workload, 2048)


def test_empty_and_zero_lists_are_refused() -> None:
    for lengths in (np.array([], int), np.array([3, 0])):
        with pytest.raises(UsageError, match="mine: lengths must be 1 or more"):
            empirical(lengths, "mine")


def test_residence_is_linear_in_the_lengths() -> None:
    trace = Trace(np.zeros(3), np.array([1, 4, 9]), np.array([3, 4, 1]))
    m = trace_moments(trace, NO_LIMIT)
    for residence in (proportional(2.5, m), decoding(8.0), Residence(0.5, 0.25)):
        stays = residence.of(trace)
        assert residence.mean_s(m) == pytest.approx(stays.mean())
        assert residence.mean_token_s(m) == pytest.approx((stays * trace.total_tokens).mean())
    assert proportional(2.5, m).of(trace).mean() == pytest.approx(2.5)
    assert decoding(8.0).of(trace).tolist() == [3 / 8, 4 / 8, 1 / 8]
    for bad in (0.0, -1.0, math.inf, math.nan):
        for make in (lambda value: proportional(value, m), decoding):
            with pytest.raises(UsageError, match="accepted: more than 0"):
                make(bad)


def test_loads_set_the_rate() -> None:
    m = Moments(4.0, 6.0, 20.0, 30.0, 50.0)
    residence = proportional(2.0, m)  # 0.2 s a token; E[length * residence] = 0.2 * (20 + 60 + 50) = 26
    assert Load(1.3, "pool").rate_per_s(residence, m, 1000, 100) == pytest.approx(1.3 * 1000 / 26)
    assert Load(1.3, "slot").rate_per_s(residence, m, 1059, 100) == pytest.approx(1.3 * 10 / 2.0)
    assert parse_load("0.5") == Load(0.5, "pool") and parse_load("moderate") == Load(1.18, "slot")
    assert default_requests(10.0, residence.mean_s(m)) == HORIZON_RESIDENCES * 20
    assert default_requests(1e-9, residence.mean_s(m)) == 1
    with pytest.raises(UsageError, match=r"asks for 3\.4e\+31 requests; accepted: up to"):
        default_requests(1e30, residence.mean_s(m))


@pytest.mark.parametrize("text", ["", "huge", "0", "-1", "nan", "inf", "1,5", "Moderate"])
def test_bad_loads_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"load '{text}'; accepted: moderate, high, a number"):
        parse_load(text)


def test_a_trace_is_scaled_to_a_rate_and_keeps_its_shape() -> None:
    trace = Trace(np.array([1.0, 2.0, 5.0]), np.array([1, 2, 3]), np.array([1, 1, 1]))
    scaled = scaled_to_rate(trace, 1.5)
    assert len(trace) / scaled.span_s == pytest.approx(1.5)
    assert (scaled.arrival_s / trace.arrival_s).tolist() == pytest.approx([0.5] * 3)
    with pytest.raises(UsageError, match="all arrive at once"):
        scaled_to_rate(Trace(np.ones(3), np.ones(3), np.ones(3)), 1.0)
