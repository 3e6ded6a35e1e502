"""`pagesim run --on-full queue` from Python: loads, replications, the account of contiguous runs, saved results."""

from dataclasses import replace

import numpy as np
import pytest
from cases import traces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagesim.sim.allocators import Pool, allocator_class
from pagesim.sim.config import PoolConfig, QueueConfig, RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.length_pairs import Moments
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.serving.load import full_batch
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steptime import ConstantStep, Knot, LinearStep
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.trace import Trace

BLOCKS = 600
NAMES = ("reservation", "exact-fit", "buddy", "paged")


def config(load="1", rules=None, step_time="constant:0.02", slo=None, **words):
    chosen = ServingConfig(num_blocks=BLOCKS, token_budget=8192, **(rules or {}))
    settings = {"allocators": NAMES, "num_runs": 2, "workload": WorkloadConfig(num_requests=600), **words}
    pool = PoolConfig(tokens=BLOCKS * 16)
    return RunConfig(load=load, pool=pool, on_full="queue", queue=QueueConfig(chosen, step_time, slo), **settings)


def run(*args, **words):
    made = config(*args, **words)
    return ServingResult.of(made, serve_all(made))


@pytest.fixture(scope="module")
def high():
    return run("1.4", slo="ttft<1s")


def test_all_allocators_see_the_same_requests_and_serve_them_all(high):
    for a in high.allocators.values():
        assert (a.requests, a.finished, a.unfinished, a.rejected) == (1200, 1200, 0, 0)
        whole = a.used.mean + a.reserved.mean + a.internal.mean + a.free.mean
        assert whole == pytest.approx(1, abs=1e-8)
        assert a.occupied.mean == pytest.approx(1 - a.free.mean, abs=1e-8)
        for share in (a.used, a.reserved, a.internal, a.free, a.unusable):
            assert 0 <= share.mean <= 1
        assert a.unusable.mean <= a.free.mean
        assert a.ttft_s.count == 1200 and a.ttft_s.missing == 0
    outputs = {round(a.output_tokens_per_s.mean * a.span_s.mean) for a in high.allocators.values()}
    assert max(outputs) / min(outputs) == pytest.approx(1, abs=0.02)  # means of two runs, multiplied


def test_the_literature_in_order(high):
    """Who wastes less runs more at once, and is faster to the first token; only paging ever puts anybody back."""
    reservation, exact, buddy, paged = (high.allocators[name] for name in NAMES)
    batches = [a.running_mean.mean for a in (reservation, buddy, exact, paged)]
    assert batches == sorted(batches)
    waits = [a.ttft_s.p50.mean for a in (paged, exact, buddy, reservation)]
    assert waits == sorted(waits)
    assert reservation.internal.mean > 0.5 > buddy.internal.mean > 0.1 > exact.internal.mean
    assert exact.unusable.mean > 0.01 > paged.unusable.mean == 0
    assert paged.preemptions > 0 == reservation.preemptions == exact.preemptions
    assert paged.goodput_per_s.mean > exact.goodput_per_s.mean > reservation.goodput_per_s.mean


def test_a_result_is_what_its_replications_say():
    """Sums of counts, means of shares, the greatest of peaks, and percentiles of all requests together."""
    host = {"preempt": "swap", "host_blocks": 20, "host_bandwidth_bytes_per_s": 1e9, "bytes_per_token": 12288}
    many = WorkloadConfig(num_requests=333)
    made = config("1.4", {"prefix_caching": True, **host}, allocators=("paged", "reservation"), workload=many)
    runs = serve_all(made)
    result = ServingResult.of(made, runs).allocators
    for name, a in result.items():
        each = [one.figures for one in runs.served[name]]
        assert a.occupied.mean == pytest.approx(sum(1 - one.pool["free"] for one in each) / 2)
        assert a.running_peak == max(one.running_peak for one in each)
        assert a.waiting_peak == max(one.waiting_peak for one in each)
        for reason, waited in a.waited.items():
            assert waited.heads == sum(one.waited[reason].heads for one in each)
            assert waited.share.mean == pytest.approx(sum(one.waited[reason].time_s / one.span_s for one in each) / 2)
        assert a.waited["no blocks"].heads > max(one.waited["no blocks"].heads for one in each) > 0
        assert a.e2e_s.max == pytest.approx(max(one.e2e_s.max for one in each))
        for which in ("ttft_s", "tpot_s", "e2e_s"):
            values = np.sort(np.concatenate([getattr(one, which) for one in runs.served[name]]))
            wanted = Distribution.of(values, 0)
            drawn = a.percentiles[which]
            assert (drawn[50], drawn[90], drawn[99], drawn[100]) == pytest.approx(
                (wanted.p50, wanted.p90, wanted.p99, wanted.max)
            )
            assert drawn[0] == pytest.approx(values[0]) and len(drawn) == 101
            assert drawn[33] == pytest.approx(values[-(-33 * len(values) // 100) - 1])
            sums = [getattr(one, which).mean * getattr(one, which).count for one in each]
            assert values.sum() == pytest.approx(sum(sums))
    paged = [one.figures for one in runs.served["paged"]]
    asked = [one.prefix["prefix_queries_first"] + one.prefix["prefix_queries_return"] for one in paged]
    found = [one.prefix["prefix_hits_first"] + one.prefix["prefix_hits_return"] for one in paged]
    assert min(found) > 0 and paged[0].prefix["prefix_hits_return"] > 0
    share = sum(hits / queries for hits, queries in zip(found, asked, strict=True)) / 2
    assert result["paged"].prefix_hit_share.mean == pytest.approx(share)
    swaps = [one.what_ifs.swap for one in paged]
    assert result["paged"].what_ifs["swap"]["swapped"] == sum(one.swapped for one in swaps) > 0
    assert result["paged"].what_ifs["swap"]["peak_host_blocks"] == max(one.peak_host_blocks for one in swaps) <= 20
    preemptions = [sum(one.preemptions) for one in runs.served["paged"]]
    assert preemptions == [one.preemptions for one in paged]
    assert sum(result["paged"].series.preemptions) * 2 == pytest.approx(sum(preemptions))


def test_a_load_of_one_is_what_a_full_batch_finishes():
    many = {"num_runs": 1, "workload": WorkloadConfig(num_requests=4000), "allocators": ("paged",)}
    under, over = run("0.7", **many), run("1.3", **many)
    assert under.allocators["paged"].waiting_mean.mean < 2  # this pool holds 20 sequences: a few long ones fill it
    assert over.allocators["paged"].waiting_mean.mean > 200
    finished = over.allocators["paged"].requests_per_s.mean
    assert finished == pytest.approx(over.trace.rate_per_s / 1.3, rel=0.1)


@pytest.mark.parametrize(
    ("rules", "slots_each", "sequences"),
    [
        ({}, None, 40),  # of 5,008 slots, 125 in the mean: a prompt of 100 and half of 50 outputs
        ({}, 500, 10),
        ({"max_num_seqs": 30}, None, 30),
        ({"token_budget": 60}, None, 20),  # each of them brings two tokens of a prompt for each output
    ],
)
def test_a_full_batch_by_hand(rules, slots_each, sequences):
    m = Moments(p=100, o=50, pp=100**2, po=100 * 50, oo=50**2, share=1)
    pool = ServingConfig(**{"num_blocks": 314, "max_model_len": 500, **rules})
    batch = full_batch(pool, LinearStep(1, 1e-3, 1e-6, 1e-2), m, slots_each)
    come = sequences / 50
    tokens, pairs = sequences + come * 100, come * 100 * 101 / 2
    assert batch.sequences == sequences
    assert batch.step_s == pytest.approx(
        1 + 1e-3 * tokens + 1e-6 * (pairs + 2 * sequences * 125) + 1e-2 * (sequences + come)
    )
    assert batch.mean_residence_s == pytest.approx(50 * batch.step_s)
    assert batch.rate_per_s == pytest.approx(sequences / 50 / batch.step_s)


def test_most_steps_of_a_full_batch_let_nobody_in():
    """10 sequences of 50 outputs: one step of five is of 110 tokens, which here is where tokens begin to cost."""
    m = Moments(p=100, o=50, pp=100**2, po=100 * 50, oo=50**2, share=1)
    step_time = LinearStep(1, 0.0, 1e-4, 0.0, 0.0, 3.0, curve=(Knot(60, 0.0), Knot(110, 5.0)))
    assert full_batch(ServingConfig(num_blocks=314, max_model_len=500), step_time, m, 500).step_s == pytest.approx(
        0.8 * 1 + 0.2 * (1 + 3 + 5 + 0.505)
    )
    short = Moments(p=100, o=5, pp=100**2, po=500, oo=25, share=1)  # two come in each step
    both_s = full_batch(ServingConfig(num_blocks=314, max_model_len=500), step_time, short, 500).step_s
    assert both_s == pytest.approx(1 + 3 + 5 + 2 * 0.505)


def test_load_by_reservations():
    """ "moderate" is 1.18 times what reservations finish: four of them in this pool, at a constant step."""
    made = config("moderate")
    result = ServingResult.of(made, serve_all(made))
    outputs = result.trace.mean_residence_s / 0.02
    assert result.pool.reservations == 4
    assert result.trace.rate_per_s == pytest.approx(1.18 * 4 / (outputs * 0.02), rel=1e-6)


def test_one_at_a_time_is_the_queue_of_the_textbook():
    """max_num_seqs 1, fixed lengths, a constant step: M/D/1. Each wait by Lindley's recursion, exactly; the mean near
    rho * service / (2 * (1 - rho)).
    """
    rho, outputs, step_s, count = 0.7, 20, 0.05, 40_000
    rng = np.random.default_rng(5)
    arrival_s = np.cumsum(rng.exponential(outputs * step_s / rho, count))
    trace = Trace(arrival_s, np.full(count, 10), np.full(count, outputs))
    log = serve(trace, ServingConfig(max_num_seqs=1), ConstantStep(step_s))
    waits = [0.0]
    for pause in np.diff(arrival_s).tolist():
        waits.append(max(0.0, waits[-1] + outputs * step_s - pause))
    assert (log.admitted_s - log.arrival_s).tolist() == pytest.approx(waits, abs=1e-6)
    assert sum(waits) / count == pytest.approx(rho * outputs * step_s / (2 * (1 - rho)), rel=0.1)


def test_the_same_seed_gives_the_same_result(high):
    assert run("1.4", slo="ttft<1s") == high
    assert run("1.4", slo="ttft<1s", seed=1) != high


def test_a_result_loads_back_equal(high, tmp_path):
    file = high.save(tmp_path / "folder")
    assert ServingResult.load(file) == ServingResult.load(file.parent) == high
    assert high.schema == ServingResult.SCHEMA
    file.write_text(file.read_text().replace(ServingResult.SCHEMA, "pagesim.serve/0"))
    with pytest.raises(UsageError, match=r"accepted: pagesim\.serve/1"):
        ServingResult.load(file)


def test_series_are_of_the_whole_time_of_all_allocators():
    """Worked example 1 of the recordings' format in steps of 2 s: C goes at 8 s; one by one all take longer."""
    trace = Trace(np.array([0.0, 0.0, 2.0]), np.array([5, 9, 6]), np.array([8, 6, 7]))
    rules = ServingConfig(num_blocks=9, block_size=4, token_budget=16, max_num_seqs=4, max_model_len=32)
    made = RunConfig(
        load=None, trace="given", num_runs=1, allocators=("paged", "reservation"), max_model_len=32,
        pool=PoolConfig(tokens=36, block_size=4), on_full="queue", queue=QueueConfig(rules, "constant:2"),
    )  # fmt: skip
    runs = serve_all(made, trace)
    result = ServingResult.of(made, runs).allocators
    assert [round(runs.served[name][0].figures.span_s) for name in result] == [42, 20]
    for a in result.values():
        assert (len(a.series.end_s), a.series.end_s[-1]) == (200, 42)
    preempted = np.flatnonzero(result["paged"].series.preemptions)
    assert len(preempted) == 1 and result["paged"].series.end_s[preempted[0]] == pytest.approx(8 + 0.21, abs=0.21)
    assert result["paged"].series.running[-1] == 0 and result["reservation"].series.running[-1] == 1


def test_warm_up_leaves_the_beginning_out():
    whole, later = run("1.4"), run("1.4", warmup=0.5)
    for name in NAMES:
        assert later.allocators[name].requests < 0.6 * whole.allocators[name].requests
        assert later.allocators[name].span_s.mean < whole.allocators[name].span_s.mean
        assert later.allocators[name].ttft_s.p50.mean > whole.allocators[name].ttft_s.p50.mean


def test_a_trace_at_its_own_times_and_with_shared_beginnings():
    from pagesim.sim.trace import HashIds

    count = 50
    shared = HashIds.of([[0, 1, 2, row + 3] for row in range(count)])
    trace = Trace(np.arange(count) / 4, np.full(count, 64), np.full(count, 8), hash_ids=shared, hash_block_tokens=16)
    made = config(None, {"prefix_caching": True}, trace="given", num_runs=1)
    result = ServingResult.of(made, serve_all(made, trace))
    assert result.trace.rate_per_s is None
    assert result.allocators["paged"].prefix_hit_share.mean == pytest.approx(48 * 49 / (64 * 50))
    assert result.allocators["paged"].cached.mean > 0
    assert result.allocators["exact-fit"].prefix_hit_share is None


def test_rules_must_be_for_the_pool_of_the_run():
    with pytest.raises(UsageError, match=r"accepted: those of the run, 600, 16 and 2048"):
        replace(config(), queue=QueueConfig(ServingConfig(num_blocks=601)))
    with pytest.raises(UsageError, match="accepted: a QueueConfig with 'queue' alone"):
        replace(config(), on_full="refuse")
    with pytest.raises(UsageError, match="without a queue"):
        serve_all(RunConfig())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(traces(), st.sampled_from(("reservation", "exact-fit:best", "buddy")), st.integers(1, 12))
def test_the_account_of_contiguous_runs(trace, name, most):
    """Slot by slot: what an allocator gives for each length, less what is filled in the end, is never filled."""
    trace = replace(trace, hash_ids=None, hash_block_tokens=None, n=None)
    longest = int(trace.total_tokens.max())
    rules = ServingConfig(
        num_blocks=2 + 3 * longest, block_size=1, max_model_len=longest, max_num_seqs=most, allocator=name
    )
    log = serve(trace, rules, ConstantStep(1.0))
    line = Timeline(log)
    maker = allocator_class(name)(Pool(rules.usable_tokens, longest, 1))
    used, held, internal = (np.zeros(log.num_steps, int) for _ in range(3))
    rows, steps = log.finishes
    for row, finish in zip(rows.tolist(), steps.tolist(), strict=True):
        final = int(trace.total_tokens[row])
        told = final if name == "buddy" else final - 1  # exact fit knows that the last token needs no slot
        assert maker.place(0, 1, told) if maker.sees_final_length else maker.place(0, 1)
        owned = maker.owned(0)
        maker.release(0)
        admitted = int(log.admissions["step"][log.admissions["row"] == row][0])
        held[admitted : finish + 1] += owned
        internal[admitted : finish + 1] += owned - (final - 1)
    assert line.held_tokens.tolist() == held.tolist()
    assert line.internal_tokens.tolist() == internal.tolist()
    for step, row, computed, *_ in log.chunks.tolist():
        finish = int(steps[rows == row][0])
        before = [c for s, r, c, *_ in log.chunks.tolist() if r == row and s < step]
        used[step : finish + 1] += computed - (before[-1] if before else 0)
        if computed == trace.prompt_tokens[row]:
            used[step : finish + 1] += np.arange(finish + 1 - step)
    assert line.used_tokens.tolist() == used.tolist()
