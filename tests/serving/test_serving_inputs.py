"""What is refused, and in what words; samples; allocators of contiguous runs; the cost of waiting."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.figures import figures
from pagesim.sim.serving.scenario import read_scenario
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steps import steps
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.trace import HashIds, Trace

DATA = Path(__file__).parents[1] / "data" / "golden"
ONE = ConstantStep(1.0)
SWAP = {"preempt": "swap", "host_blocks": 64, "host_bandwidth_bytes_per_s": 25e9, "bytes_per_token": 12_288}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"num_blocks": 1}, "--num-blocks 1; accepted: 2 or more"),
        ({"block_size": 0}, "--block-size 0"),
        ({"token_budget": 0}, "--token-budget 0"),
        ({"max_num_seqs": 0}, "--max-num-seqs 0"),
        ({"watermark": 1.0}, "--watermark 1;"),
        ({"watermark": float("nan")}, "--watermark nan"),
        ({"policy": "sjf"}, "--policy sjf; accepted: fcfs, priority"),
        ({"victim": "me"}, "--victim me; accepted: last"),
        ({"policy": "priority", "victim": "longest"}, "--policy priority"),
        ({"chunked_prefill": False, "long_prefill_threshold": 8}, "--no-chunked-prefill"),
        ({"allocator": "buddy", "prefix_caching": True}, "--allocator buddy"),
        ({"evict": "mru", "prefix_caching": True}, "--evict mru; accepted: lru, fifo, random, optimal"),
        ({"evict": "fifo"}, "--evict fifo without --prefix-caching"),
        ({"prefix_match_unit": 4}, "--prefix-match-unit 4 without --prefix-caching"),
        ({"prefix_match_unit": 5, "prefix_caching": True}, "--prefix-match-unit 5; accepted: 0 for whole blocks"),
        ({"preempt": "swap"}, "--preempt swap and --host-memory, in blocks, is not given"),
        ({"host_blocks": 4}, "--preempt recompute and --host-memory, in blocks, 4"),
        ({**SWAP, "host_bandwidth_bytes_per_s": 0.0}, "--host-bandwidth, bytes/s, 0; accepted: more than 0"),
        ({**SWAP, "allocator": "buddy"}, "--preempt swap with --allocator buddy"),
        ({"fork": "cow", "prefix_caching": True}, "--fork cow with --prefix-caching"),
        ({"num_blocks": 2**70}, "--num-blocks 1180591620717411303424; accepted: up to 1099511627776"),
        ({"block_size": 2**70}, "--block-size 1180591620717411303424; accepted: up to"),
        ({"fork": "cow", "allocator": "buddy"}, "--fork cow with --allocator buddy"),
    ],
)
def test_configurations_that_make_no_sense(words, said):
    with pytest.raises(UsageError, match=said):
        ServingConfig(**words)


def test_requests_that_can_never_be_served_are_rejected_on_arrival():
    prompts, outputs = np.array([64, 65, 64, 100, 1]), np.array([1, 1, 2, 29, 1])
    config = ServingConfig(num_blocks=5, block_size=16, max_model_len=128)
    log = serve(Trace(np.zeros(5), prompts, outputs), config, ONE)
    assert log.rejected.tolist() == [False, True, True, True, False]
    assert np.isnan(log.finish_s).tolist() == log.rejected.tolist()
    unchunked = replace(config, chunked_prefill=False, token_budget=63)
    assert serve(Trace(np.zeros(5), prompts, outputs), unchunked, ONE).rejected.tolist() == [True] * 4 + [False]


def test_steps_that_the_clock_cannot_tell_apart_are_refused():
    """Two steps at one time, and the log could not say which of them a request finished in."""
    late = Trace(np.array([1e9, 1e9 + 1e-6]), np.full(2, 10), np.full(2, 1000))
    with pytest.raises(UsageError, match="steps of 1e-12 s, when the last request arrives at 1e"):
        serve(late, ServingConfig(), ConstantStep(1e-12))
    log = serve(late, ServingConfig(), ConstantStep(1e-6))
    assert len(list(steps(log))) == log.num_steps
    early = serve(Trace(np.zeros(1), np.full(1, 10), np.full(1, 1000)), ServingConfig(), ConstantStep(1e-12))
    assert early.finish_s[0] == pytest.approx(1e-9)


def test_there_is_a_priority_for_each_request():
    trace = Trace(np.zeros(2), np.ones(2, int), np.ones(2, int))
    with pytest.raises(UsageError, match="1 priorities for 2 requests"):
        serve(trace, ServingConfig(policy="priority"), ONE, priority=[1])


def test_priorities_are_a_column_of_the_trace_or_an_argument():
    trace = Trace(np.zeros(3), np.full(3, 4), np.full(3, 5), priority=np.array([2, 1, 0]))
    config = ServingConfig(policy="priority", max_num_seqs=1)
    assert serve(trace, config, ONE).admissions["row"].tolist() == [2, 1, 0]
    assert serve(trace, config, ONE, priority=[1, 0, 2]).admissions["row"].tolist() == [1, 0, 2]
    assert serve(trace, replace(config, policy="fcfs"), ONE).admissions["row"].tolist() == [0, 1, 2]


def recording(**changes):
    golden = json.loads(gzip.decompress((DATA / "tiny_prefix.json.gz").read_bytes()))
    return {**golden, **changes}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not a recording"),
        ("[]", "not a recording"),
        (json.dumps(recording(format="other")), "format 'other'; accepted: pagesim-golden-1"),
        (
            json.dumps(recording(requests=[{"id": "a", "arrival": 0, "prompt_tokens": 1, "output_tokens": "x"}])),
            "output_tokens",
        ),
        (
            json.dumps(recording(requests=[{"id": "a", "arrival": 0, "prompt_tokens": 0, "output_tokens": 1}])),
            "prompt_tokens 0",
        ),
        (json.dumps(recording(requests=2 * recording()["requests"][:1])), "each id once"),
    ],
)
def test_bad_recordings_are_refused(tmp_path, content, said):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(TraceError, match=said) as refused:
        read_scenario(path)
    assert str(path) in str(refused.value)


def test_a_missing_or_cut_recording_is_refused(tmp_path):
    with pytest.raises(TraceError, match="cannot be read"):
        read_scenario(tmp_path / "none.json.gz")
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes((DATA / "tiny_prefix.json.gz").read_bytes()[:-20])
    with pytest.raises(TraceError, match="cannot be read"):
        read_scenario(cut)


def test_prompts_without_ids_beside_some_with_them_share_nothing(tmp_path):
    requests = [
        {"id": "a", "arrival": 0, "prompt_tokens": 8, "output_tokens": 1, "hash_ids": [0, 1]},
        {"id": "b", "arrival": 5, "prompt_tokens": 8, "output_tokens": 1},
        {"id": "c", "arrival": 9, "prompt_tokens": 8, "output_tokens": 1, "hash_ids": [0, 1]},
    ]
    path = tmp_path / "some.json"
    path.write_text(json.dumps(recording(requests=requests)))
    scenario = read_scenario(path)
    log = serve(scenario.trace, scenario.config, ONE)
    assert log.admissions["hit_tokens"].tolist() == [0, 0, 4]


def test_samples_are_requests_of_their_own_that_find_each_other_only_in_the_cache():
    trace = Trace(np.zeros(1), np.array([100]), np.array([5]), n=np.array([8]))
    config = ServingConfig(num_blocks=200, token_budget=2048)
    plain = serve(trace, config, ONE)
    assert len(plain.finish_s) == 8
    assert plain.totals()["scheduled_tokens"] == 8 * (100 + 5 - 1)
    cached = serve(trace, replace(config, prefix_caching=True), ONE)
    assert cached.admissions["hit_tokens"].tolist() == [0] + [96] * 7


def test_the_note_s_shared_prefix_is_found_by_each_of_fifteen():
    """Sixteen requests on one prefix of 2,407 tokens, blocks of 16: 150 blocks are shared."""
    ids = [[0, 0, 0, 0, 100 + k] for k in range(16)]
    trace = Trace(
        np.zeros(16), np.full(16, 2407), np.full(16, 4), hash_ids=HashIds.of([row[:1] for row in ids]),
        hash_block_tokens=2407,
    )  # fmt: skip
    config = ServingConfig(token_budget=8192, max_model_len=4096, prefix_caching=True)
    totals = serve(trace, config, ONE).totals()
    assert totals["prefix_hits_first"] == 15 * 2400


def test_the_note_s_starved_pool_in_time():
    """184 preemptions cost a quarter of the throughput, with step times fitted to the note's card."""
    scenario = read_scenario(DATA / "starve200_sync8192.json.gz")
    t4 = LinearStep(base_s=7.825e-3, per_token_s=35.74e-6, per_pair_s=127.0e-9, per_sequence_s=17.2e-6)
    starved = figures(serve(scenario.trace, scenario.config, t4))
    roomy = figures(serve(scenario.trace, replace(scenario.config, num_blocks=58_116), t4))
    cached = serve(scenario.trace, replace(scenario.config, prefix_caching=True), t4)
    assert (starved.preemptions, starved.steps, starved.recomputed_tokens) == (184, 1908, 101_838)
    assert starved.output_tokens_per_s == pytest.approx(3400, rel=0.005)
    assert roomy.output_tokens_per_s == pytest.approx(4476, rel=0.001)
    assert figures(cached).output_tokens_per_s == pytest.approx(3413, rel=0.005)
    assert cached.totals()["prefix_queries_return"] == 102_040
    assert cached.totals()["prefix_hits_return"] == 5_488


def drawn(count, rate, seed=3):
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1 / rate, count))
    return Trace(arrival_s, rng.integers(200, 501, count), rng.integers(150, 251, count))


def test_every_allocator_serves_behind_the_same_queue():
    trace, config = drawn(400, 40.0), ServingConfig(num_blocks=800, max_model_len=1024)
    batch = {}
    for name in ("paged", "exact-fit", "buddy", "reservation"):
        log = serve(trace, replace(config, allocator=name), ConstantStep(0.02))
        f = figures(log)
        assert f.finished == 400
        assert name == "paged" or f.preemptions == 0
        batch[name] = f.output_tokens_per_s
    assert batch["paged"] > batch["exact-fit"] > batch["buddy"] > batch["reservation"]


def test_a_contiguous_pool_is_never_overfull_and_empties():
    trace = drawn(300, 60.0)
    config = ServingConfig(num_blocks=400, max_model_len=1024, allocator="exact-fit")
    log = serve(trace, config, ConstantStep(0.02))
    assert log.segments["blocks_used"].max() <= config.usable_tokens
    assert log.segments["blocks_used"].max() > 0.8 * config.usable_tokens


def test_a_long_queue_costs_nothing_for_each_of_those_who_wait():
    """At ten times the load at which the pool is full, and ten times that, as many stretches for each request."""
    config = ServingConfig(num_blocks=1000)
    stretches = [len(serve(drawn(2000, rate), config, ConstantStep(0.02)).segments) for rate in (100.0, 1000.0)]
    assert stretches[1] < 1.05 * stretches[0]


def test_the_same_run_twice_is_the_same_log():
    trace = drawn(200, 50.0)
    config = ServingConfig(num_blocks=300, prefix_caching=True)
    first, second = (serve(trace, config, ConstantStep(0.02)) for _ in range(2))
    assert first.segments.tobytes() == second.segments.tobytes()
    assert first.finish_s.tobytes() == second.finish_s.tobytes()


def test_progress_is_told_in_thousands():
    told = []
    serve(drawn(2500, 100.0), ServingConfig(), ConstantStep(0.02), on_progress=told.append)
    assert told == [1000, 1000]
