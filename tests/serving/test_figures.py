"""Figures by hand, against brute force, and against the judge."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from stepper import Stepper

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.figures import Waited, figures
from pagesim.sim.serving.latency import intervals
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.slo import parse_slo
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.trace import Trace

# Worked example 1 of the recordings' format, in steps of 2 s, with a fourth request that can never be served.
TRACE = Trace(np.array([0.0, 0.0, 2.0, 2.0]), np.array([5, 9, 6, 31]), np.array([8, 6, 7, 3]))
CONFIG = ServingConfig(num_blocks=9, block_size=4, token_budget=16, max_num_seqs=4, max_model_len=48)


@pytest.fixture(scope="module")
def log():
    return serve(TRACE, CONFIG, ConstantStep(2.0))


def test_times_of_the_worked_example(log):
    assert log.rejected.tolist() == [False, False, False, True]
    assert log.admitted_s[:3].tolist() == [0, 0, 2]
    assert log.first_token_s[:3].tolist() == [2, 2, 4]
    assert log.finish_s[:3].tolist() == [16, 12, 20]
    assert np.isnan(log.finish_s[3])


def test_figures_of_the_worked_example(log):
    f = figures(log)
    assert (f.requests, f.finished, f.unfinished, f.rejected, f.steps) == (4, 3, 0, 1, 10)
    assert (f.preemptions, f.preempted_requests, f.recomputed_tokens, f.blocks_peak) == (1, 1, 8, 7)
    assert f.span_s == 20
    assert f.output_tokens_per_s == pytest.approx(21 / 20)
    assert f.scheduled_tokens_per_s == pytest.approx(46 / 20)
    assert (f.ttft_s.count, f.ttft_s.missing, f.ttft_s.max) == (3, 1, 2)
    assert f.tpot_s.mean == pytest.approx((14 / 7 + 10 / 5 + 16 / 6) / 3)
    assert (f.tpot_s.count, f.tpot_s.missing) == (3, 1)
    assert f.e2e_s.mean == pytest.approx((16 + 12 + 18) / 3)
    assert f.queueing_s.max == 0
    # C gets its third output at 8 s and its fourth at 14 s; the other 17 intervals are one step long.
    assert (f.itl_s.count, f.itl_s.max, f.itl_s.p50) == (18, 6, 2)
    assert f.itl_s.mean == pytest.approx((17 * 2 + 6) / 18)
    # C waits in step 4, which preempts, and in step 5, in which its blocks are not free.
    none = Waited(0, 0)
    assert f.waited == {
        "no blocks": Waited(2, 1), "max_num_seqs": none, "token budget": none, "preemption": Waited(2, 1),
    }  # fmt: skip
    # C is gone in steps 4 and 5, and back with 9 tokens in step 6. B holds its fourth block in steps 4 and 5, and two
    # slots of it stay empty for good; the last blocks of A and C are filled in the end.
    used, held = [14, 22, 25, 28, 22, 24, 20, 22, 11, 12], [5, 7, 7, 7, 7, 7, 6, 6, 3, 3]
    assert f.pool["used"] == pytest.approx(sum(used) / 320)
    assert f.pool["free"] == pytest.approx(1 - sum(held) * 4 / 320)
    assert f.pool["internal"] == pytest.approx((2 + 2) / 320)
    assert f.pool["used"] + f.pool["reserved"] + f.pool["internal"] + f.pool["free"] == pytest.approx(1)
    assert (f.pool["running"], f.pool["waiting"]) == (pytest.approx(21 / 10), pytest.approx(2 / 10))
    assert (f.running_peak, f.waiting_peak) == (3, 1)


@pytest.mark.parametrize("rules", [{}, {"long_prefill_threshold": 3}])
def test_what_computing_again_takes_is_by_token_and_by_pair(rules):
    """Whatever the chunks: token k of those that are computed again attends to k, itself among them."""
    steps = {
        "tokens": LinearStep(1, 1 / 64, 0, 0),
        "pairs": LinearStep(1, 0, 1 / 64, 0),
        "none": LinearStep(1, 0, 0, 1 / 64),
    }
    log = {name: serve(TRACE, replace(CONFIG, **rules), step) for name, step in steps.items()}
    again = {name: figures(log[name]).recomputed_tokens for name in steps}
    took_s = {name: figures(log[name]).recomputing_s for name in steps}
    assert all(len(log[name].preemptions) == 1 for name in steps) and min(again.values()) > 6
    assert took_s["tokens"] == pytest.approx(again["tokens"] / 64)
    assert took_s["pairs"] == pytest.approx(again["pairs"] * (again["pairs"] + 1) / 2 / 64)
    assert took_s["none"] == 0


def test_goodput_of_the_worked_example(log):
    def goodput(slo):
        return figures(log, parse_slo(slo)).goodput_per_s

    assert figures(log).goodput_per_s is None
    assert goodput("ttft<2s,tpot<2s") == pytest.approx(2 / 20)
    assert goodput("ttft<2000ms, tpot<3s") == pytest.approx(3 / 20)
    assert goodput("e2e<17s") == pytest.approx(2 / 20)
    assert goodput("ttft<1.9s") == goodput("tpot<1.9s") == 0
    assert goodput("tpot<2.6s") == pytest.approx(2 / 20)  # C has 16 s for 6 intervals, 7 tokens


def test_who_has_one_output_keeps_any_objective_for_further_ones():
    log = serve(Trace(np.zeros(1), np.array([4]), np.array([1])), CONFIG, ConstantStep(2.0))
    assert figures(log, parse_slo("tpot<1ms")).goodput_per_s == 1 / 2


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft<2", "ttft<2s,ttft<3s", "itl<1s", "ttft<0s", "ttft<nans", "tpot<1e999s"]
)
def test_objectives_that_make_no_sense(text):
    with pytest.raises(UsageError, match="accepted: terms like"):
        parse_slo(text)


def test_figures_after_a_warm_up(log):
    """From 4 s on: steps 2 to 9; nobody arrives any more, all three end, and C is preempted."""
    f = figures(log, parse_slo("e2e<17s"), since_s=4.0)
    assert (f.requests, f.steps, f.span_s, f.preemptions, f.recomputed_tokens) == (0, 8, 16, 1, 8)
    assert f.output_tokens_per_s == pytest.approx(21 / 16)
    assert f.goodput_per_s == pytest.approx(2 / 16)
    assert (f.ttft_s.count, f.itl_s.count) == (0, 18 - 2)
    assert f.itl_s.max == 6  # C's, from 8 s to 14 s
    assert (figures(log, since_s=15.0).itl_s.count, figures(log, since_s=15.0).itl_s.max) == (2, 2)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 4)), max_size=30))
def test_a_distribution_is_that_of_the_values_written_out(pairs):
    values, counts = np.array([v for v, _ in pairs]), np.array([c for _, c in pairs], np.int64)
    out = sorted(v for v, c in pairs for _ in range(c))
    got = Distribution.of(values, 2, counts)
    assert (got.count, got.missing) == (len(out), 2)
    if out:
        assert got.mean == pytest.approx(math.fsum(out) / len(out))
        assert got.max == out[-1]
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
            assert getattr(got, name) == out[math.ceil(share * len(out)) - 1]
        plain = Distribution.of(np.array(out), 2)
        assert (plain.count, plain.p50, plain.p99, plain.max) == (got.count, got.p50, got.p99, got.max)
    else:
        assert got.mean is None


@settings(max_examples=100, deadline=None)
@given(cases())
def test_intervals_are_those_of_the_judge(case):
    trace, config, step_time, priority = case
    judge = Stepper(trace, config, step_time, priority).run()
    got = intervals(serve(trace, config, step_time, priority))
    wanted = Distribution.of(np.array(judge.gaps), got.missing)
    assert got.count == wanted.count
    for name in ("mean", "p50", "p90", "p95", "p99", "max"):
        assert getattr(got, name) == pytest.approx(getattr(wanted, name), abs=1e-9)


@pytest.mark.parametrize(
    ("rules", "reason", "ends_s"),
    [({"max_num_seqs": 1}, "max_num_seqs", 101), ({"token_budget": 1}, "token budget", 104)],
)
def test_who_comes_while_like_steps_are_leapt_over_waits_too(rules, reason, ends_s):
    """One has 101 answers, and the other comes at 10.5 s: it waits from the step that begins at 11 s on."""
    trace = Trace(np.array([0.0, 10.5]), np.array([4, 4]), np.array([101, 3]))
    f = figures(serve(trace, ServingConfig(**rules), ConstantStep(1.0)))
    assert f.waiting_peak == 1
    assert f.waited.pop(reason) == Waited(ends_s - 11, 1)
    assert set(f.waited.values()) == {Waited(0, 0)}
    assert f.queueing_s.max == ends_s - 10.5
    assert f.pool["waiting"] * f.span_s == pytest.approx(ends_s - 11)


@pytest.mark.parametrize(("seats", "reason"), [(4, "token budget"), (1, "max_num_seqs")])
def test_a_prompt_that_takes_the_whole_budget_is_waited_for(seats, reason):
    """Eight tokens in two steps of four; the other comes in with the third. With one seat that is the reason."""
    trace = Trace(np.zeros(2), np.array([8, 4]), np.array([1, 1]))
    f = figures(serve(trace, ServingConfig(token_budget=4, max_num_seqs=seats), ConstantStep(1.0)))
    assert f.waited.pop(reason) == Waited(2, 1)
    assert set(f.waited.values()) == {Waited(0, 0)}


@settings(max_examples=100, deadline=None)
@given(cases())
def test_who_waits_and_who_must_go_is_as_the_judge_sees_it(case):
    trace, config, step_time, priority = case
    rows = Stepper(trace, config, step_time, priority).run().rows
    f = figures(serve(trace, config, step_time, priority))
    assert f.waiting_peak == max((row["waiting"] for row in rows), default=0)
    gone = [request for row in rows for request in row["preempted"]]
    assert (f.preemptions, f.preempted_requests) == (len(gone), len(set(gone)))
    if isinstance(step_time, ConstantStep) and config.preempt == "recompute":
        waits = sum(row["waiting"] > 0 for row in rows)
        assert sum(one.time_s for one in f.waited.values()) == pytest.approx(waits * step_time.step_s)


def test_a_warm_up_that_ends_while_nothing_runs():
    """4 slots of 16 for a step of 2 s, twice; from 50 s on only the second counts, and the time until it comes."""
    trace = Trace(np.array([0.0, 100.0]), np.full(2, 4), np.full(2, 1))
    log = serve(trace, replace(CONFIG, num_blocks=5), ConstantStep(2.0))
    f = figures(log, since_s=50.0)
    assert (f.requests, f.steps, f.span_s) == (1, 1, 52)
    assert f.pool["used"] == pytest.approx(4 * 2 / 16 / 52)
    assert f.pool["running"] == pytest.approx(2 / 52)


def test_what_was_computed_again_before_the_warm_up_ended_is_in_no_figure():
    log = serve(TRACE, CONFIG, LinearStep(1, 1 / 64, 0, 0))
    again_s = log.segments["start_s"][np.searchsorted(log.first_steps, log.recomputing["step"][0])]
    assert figures(log, since_s=again_s).recomputing_s == figures(log).recomputing_s > 0
    later = figures(log, since_s=again_s + 0.5)
    assert later.recomputing_s == later.recomputed_tokens == 0


def test_who_was_rejected_before_the_warm_up_ended_is_missing_nowhere(log):
    f = figures(log, since_s=2.5)
    assert f.rejected == 0
    assert [one.missing for one in (f.ttft_s, f.tpot_s, f.itl_s, f.e2e_s, f.queueing_s)] == [0] * 5


@pytest.mark.parametrize("start_s", [0.0, 1e9, 1e12])
def test_shares_stay_shares_where_the_clock_is_coarse(start_s):
    """At 1e12 s the clock counts 0.1 ms; the pool is full from the first moment to the last."""
    trace = Trace(np.array([start_s]), np.array([10]), np.array([5]))
    config = ServingConfig(num_blocks=2, max_model_len=16)
    for allocator in ("paged", "reservation"):
        f = figures(serve(trace, replace(config, allocator=allocator), ConstantStep(0.00778)))
        shares = [f.pool[name] for name in ("used", "reserved", "internal", "free")]
        assert min(shares) >= 0 and sum(shares) == pytest.approx(1, abs=1e-9)
        assert f.pool["running"] <= 1


def test_nothing_is_served_of_an_empty_trace():
    empty = Trace(np.array([]), np.array([], int), np.array([], int))
    f = figures(serve(empty, CONFIG, ConstantStep(1.0)))
    assert (f.requests, f.steps, f.output_tokens_per_s, f.ttft_s.mean) == (0, 0, 0, None)
