"""The fit of a step-time profile: it finds what it should, the shipped numbers are its own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.cold_warm import COLD_S, cold_s, cold_warm_run, warm_s
from pagesim.sim.experiments.experiment import makespan_s
from pagesim.sim.experiments.fit import Measurement, fit_profile
from pagesim.sim.experiments.profile import reference_profile
from pagesim.sim.experiments.starved import starved_run, unstarved_run
from pagesim.sim.experiments.t4 import ANY_STEP, t4_measurements, t4_profile
from pagesim.sim.experiments.work import Work, work_of
from pagesim.sim.serving.steptime import LinearStep, pairs

EARLIER = np.array([7.825e-3, 35.74e-6, 127.0e-9, 17.2e-6])  # an earlier fit, known to three or four digits


def coefficients(step_time):
    return np.array([step_time.base_s, step_time.per_token_s, step_time.per_pair_s, step_time.per_sequence_s])


def test_refitting_gives_the_shipped_coefficients():
    shipped, refitted = reference_profile(), fit_profile(t4_measurements())
    assert coefficients(refitted) == pytest.approx(coefficients(shipped.coefficients), rel=1e-8)


def test_the_shipped_provenance_is_that_of_the_fit(done):
    shipped, now = reference_profile(), t4_profile([row for _, rows in done.values() for row in rows])
    for one, other in zip(shipped.fitted_on, now.fitted_on, strict=True):
        assert (one.figure, one.what, one.work) == (other.figure, other.what, other.work)
        assert one.measured_s == pytest.approx(other.measured_s, rel=1e-8)
    for one, other in zip(shipped.held_out, now.held_out, strict=True):
        assert (one.figure, one.what, one.unit, one.standing) == (other.figure, other.what, other.unit, other.standing)
        assert one.published == pytest.approx(other.published, rel=1e-8)
        assert one.modelled == pytest.approx(other.modelled, rel=1e-6)
    assert (shipped.schema, shipped.name, shipped.form) == (now.schema, now.name, now.form)
    assert (shipped.assumed, shipped.measured_on) == (now.assumed, now.measured_on)


def test_every_fitted_row_is_met():
    for measurement in t4_measurements():
        assert measurement.work.seconds(reference_profile().coefficients) == pytest.approx(
            measurement.measured_s, rel=1e-8
        )


def test_the_coefficients_of_an_earlier_fit_are_met_to_a_fifth_of_a_percent():
    ratio = coefficients(reference_profile().coefficients) / EARLIER
    assert ratio == pytest.approx(1, abs=0.0025)


def test_and_to_the_last_digit_given_if_a_prefill_of_n_has_half_n_squared_pairs():
    lengths = {"cold, 2,048 tokens": 2056, "cold, 4,096 tokens": 4104, "warm, 128 tokens": 8}
    halved = [
        replace(m, work=replace(m.work, pairs=m.work.pairs - lengths.get(m.what, 0) / 2)) for m in t4_measurements()
    ]
    assert [f"{c:.4g}" for c in coefficients(fit_profile(halved))] == ["0.007825", "3.574e-05", "1.27e-07", "1.718e-05"]


def by_hand(prompt, hit, answer):
    """One prefill step, and a decode step for each further token."""
    contexts = sum(prompt + k for k in range(1, answer))
    return Work(answer, prompt - hit + answer - 1, pairs(hit, prompt - hit) + 2 * contexts, answer)


@pytest.mark.parametrize("length", COLD_S)
def test_the_work_of_single_requests(length):
    run = cold_warm_run(length, ANY_STEP)
    assert work_of(run, cold_s) == by_hand(length + 8, 0, 4)
    assert work_of(run, warm_s) == by_hand(length + 8, length, 4)


def test_the_work_of_the_unstarved_run():
    prefill, contexts = pairs(0, 9), sum(9 + k for k in range(1, 1015))
    assert work_of(unstarved_run(ANY_STEP), makespan_s) == Work(
        1015, 200 * (9 + 1014), 200 * (prefill + 2 * contexts), 200 * 1015
    )


@given(st.tuples(*[st.floats(1e-7, 1e-2)] * 4))
def test_time_is_linear_in_the_work_of_a_run_that_preempts(values):
    step_time = LinearStep(*values)
    assert STARVED_WORK.seconds(step_time) == pytest.approx(makespan_s(starved_run(step_time).serve()), rel=1e-9)


STARVED_WORK = work_of(starved_run(ANY_STEP), makespan_s)


def measured(step_time, *works):
    return [Measurement("drawn", str(k), work.seconds(step_time), work) for k, work in enumerate(works)]


UNLIKE = (
    Work(4, 2059, 2_126_944, 4),
    Work(4, 11, 1888, 4),
    Work(1015, 204_600, 209_501_400, 203_000),
    Work(1, 9, 45, 1),
)
TRUE = LinearStep(8e-3, 3e-5, 1e-7, 2e-5)


def test_a_fit_finds_the_coefficients_that_made_the_times():
    more = (*UNLIKE, Work(7, 4107, 8_448_096, 50))
    assert coefficients(fit_profile(measured(TRUE, *more))) == pytest.approx(coefficients(TRUE), rel=1e-6)


def test_no_coefficient_is_negative():
    times = measured(TRUE, *UNLIKE)
    times[0] = replace(times[0], measured_s=times[0].measured_s / 5)
    fitted = coefficients(fit_profile(times))
    assert (fitted >= 0).all() and (fitted == 0).any()


@pytest.mark.parametrize("works", [(), UNLIKE[:3], (UNLIKE[0],) * 5], ids=["none", "three", "alike"])
def test_too_little_is_refused(works):
    with pytest.raises(UsageError, match=rf"^{len(works)} measurements .*accepted: at least 4 of unlike work$"):
        fit_profile(measured(TRUE, *works))
