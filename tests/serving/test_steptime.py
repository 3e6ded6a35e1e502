import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.errors import GeometryError, UsageError
from pagesim.sim.serving.engine import steps_until
from pagesim.sim.serving.steptime import ConstantStep, Knot, LinearStep, pairs, parse_step_time


def test_pairs_of_a_chunk_are_each_token_with_all_before_it_and_itself():
    assert pairs(behind=10, tokens=3) == 11 + 12 + 13
    assert pairs(0, 2048) == sum(range(1, 2049))


def test_chunks_of_a_prompt_have_the_pairs_of_the_prompt():
    assert pairs(0, 100) == pairs(0, 30) + pairs(30, 50) + pairs(80, 20)


def test_the_linear_form():
    step = LinearStep(base_s=1.0, per_token_s=0.1, per_pair_s=0.01, per_sequence_s=0.001)
    assert step.seconds(7, 20, 30, 4) == pytest.approx(1 + 0.7 + 0.01 * (20 + 60) + 0.004)
    assert step.seconds(4, 0, 34, 4) - step.seconds(4, 0, 30, 4) == pytest.approx(step.growth_s(4))


def test_a_context_may_have_a_price_of_its_own():
    step = LinearStep(1.0, 0.1, 0.01, 0.001, per_context_s=0.5)
    assert step.seconds(7, 20, 30, 4) == pytest.approx(1 + 0.7 + 0.2 + 15 + 0.004)
    assert step.seconds(4, 0, 34, 4) - step.seconds(4, 0, 30, 4) == pytest.approx(step.growth_s(4)) == 2
    assert LinearStep(1.0, 0.1, 0.01, 0.001, 0.02).seconds(7, 20, 30, 4) == pytest.approx(
        LinearStep(1.0, 0.1, 0.01, 0.001).seconds(7, 20, 30, 4)
    )


def test_a_prefill_may_cost_something_beside_its_tokens():
    plain, step = LinearStep(1.0, 0.1, 0.01, 0.001, 0.5), LinearStep(1.0, 0.1, 0.01, 0.001, 0.5, prefill_s=3.0)
    assert step.seconds(4, 0, 30, 4) == plain.seconds(4, 0, 30, 4)
    assert step.seconds(7, 1, 30, 4) == pytest.approx(plain.seconds(7, 1, 30, 4) + 3)
    assert step.growth_s(4) == plain.growth_s(4)


def test_tokens_may_cost_by_a_curve():
    plain = LinearStep(1.0, 0.1, 0.01, 0.001, 0.5, 3.0)
    step = dataclasses.replace(plain, curve=(Knot(4, 0.5), Knot(8, 0.6), Knot(32, 2.0)))
    x, y = (1, 4, 8, 32, 132), (0.1, 0.5, 0.6, 2.0, 12.0)
    for tokens in range(1, 132):
        by_tokens_s = step.seconds(tokens, 5, 40, 4) - plain.seconds(tokens, 5, 40, 4) + 0.1 * tokens
        assert by_tokens_s == pytest.approx(np.interp(tokens, x, y))
    assert step.seconds(0, 0, 0, 0) == 1.0
    assert step.growth_s(4) == plain.growth_s(4)


@pytest.mark.parametrize(
    ("curve", "told"),
    [
        ([(1, 0.5)], r"\(1, 0.5\) after \(1, 0.1\)"),
        ([(2, 0.05)], r"\(2, 0.05\) after \(1, 0.1\)"),
        ([(4, 0.5), (4, 0.6)], r"\(4, 0.6\) after \(4, 0.5\)"),
        ([(4, 0.5), (9, 0.4)], r"\(9, 0.4\) after \(4, 0.5\)"),
        ([(4, math.inf)], "inf"),
        ([(4, math.nan)], "nan"),
    ],
)
def test_a_curve_that_falls_or_goes_back_is_refused(curve, told):
    with pytest.raises(UsageError, match=f"step time curve has .*{told}.*; accepted: tokens that rise"):
        LinearStep(1.0, 0.1, 0.01, 0.001, curve=tuple(Knot(*knot) for knot in curve))


@given(st.floats(1e-4, 10), st.one_of(st.just(0.0), st.floats(1e-12, 1)), st.floats(0, 1e4), st.floats(1e-6, 1e3))
def test_steps_until_is_the_least_number(first, growth, now, ahead):
    when = now + ahead
    if when <= now:
        return

    def end(n):
        return now + (n * first + growth * (n * (n - 1) // 2))

    steps = steps_until(when, now, first, growth)
    assert end(steps) >= when
    assert steps == 1 or end(steps - 1) < when


def test_a_roofline_is_bound_by_memory_in_decode_and_by_arithmetic_in_prefill():
    step = parse_step_time("roofline:t4:qwen2.5-0.5b")
    weights, kv_bytes, parameters = 2 * 494_032_768, 12_288, 494_032_768
    launches = 24 * 10 * 5e-6
    assert step.seconds(8, 0, 8 * 1000, 8) == pytest.approx(launches + (weights + kv_bytes * 8000) / 320e9)
    arithmetic = 2 * parameters * 2048 + pairs(0, 2048) * 24 * 14 * 4 * 64
    assert step.seconds(2048, pairs(0, 2048), 0, 1) == pytest.approx(launches + arithmetic / 65e12)
    assert step.growth_s(8) == pytest.approx(8 * kv_bytes / 320e9)


@pytest.mark.parametrize(
    "text",
    [
        "constant:0",
        "constant:-1",
        "constant:nan",
        "constant:x",
        "linear:1:2",
        "fast",
        "",
        "linear:0:0:0:0",
        "linear:1:-1:0:0",
        "linear:1:0:inf:0",
        "linear:1:0:0:0:-1",
        "linear:1:0:0:0:0:-1",
        "linear:1:0:0:0:0:0:0",
    ],
)
def test_bad_step_times_are_refused(text):
    with pytest.raises(UsageError, match="accepted"):
        parse_step_time(text)


def test_an_unknown_card_is_refused():
    with pytest.raises(GeometryError, match="unknown device"):
        parse_step_time("roofline:abacus:qwen2.5-0.5b")


def test_step_times_are_parsed():
    assert parse_step_time("constant:0.02") == ConstantStep(0.02)
    assert parse_step_time("linear:1:2:3:4") == LinearStep(1, 2, 3, 4)
    assert parse_step_time("linear:1:2:3:4:5") == LinearStep(1, 2, 3, 4, 5)
    assert parse_step_time("linear:1:2:3:4:5:6") == LinearStep(1, 2, 3, 4, 5, 6)
    assert np.isclose(parse_step_time("constant:0.02").seconds(1, 2, 3, 4), 0.02)
