"""What-ifs by hand: rules that no recording has. The judge follows them step by step in `test_against_stepper`."""

from dataclasses import replace

import numpy as np
import pytest

from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steps import steps
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.trace import HashIds, Trace

ONE = ConstantStep(1.0)

# Worked example 1 of the recordings' format: in step 4 C is preempted, with two blocks of four tokens each.
TINY = Trace(np.array([0.0, 0.0, 1.0]), np.array([5, 9, 6]), np.array([8, 6, 7]))
TINY_CONFIG = ServingConfig(num_blocks=9, block_size=4, token_budget=16, max_num_seqs=4, max_model_len=48)
SWAP = replace(TINY_CONFIG, preempt="swap", host_blocks=2, host_bandwidth_bytes_per_s=64.0, bytes_per_token=2)


def column(log, name):
    return [row[name] for row in steps(log)]


def test_a_victim_is_swapped_out_and_goes_on_where_it_was():
    log = serve(TINY, SWAP, ONE, check=True)
    # C has computed 8 tokens: 2 blocks of 4 * 2 bytes, 0.25 s at 64 bytes/s, in step 4, and again in step 6.
    assert column(log, "t") == [0, 1, 2, 3, 4, 5.25, 6.25, 7.5, 8.5, 9.5]
    # It comes back with all its blocks and computes one token, where it recomputed nine.
    assert column(log, "scheduled_tokens") == [14, 8, 3, 3, 2, 2, 2, 2, 1, 1]
    assert column(log, "blocks_used") == [5, 7, 7, 7, 7, 7, 6, 6, 3, 3]
    assert log.recomputed_tokens == 0
    counts = log.what_ifs.as_json()["swap"]
    assert counts == {
        "swapped": 1, "recomputed": 0, "blocks_out": 2, "blocks_in": 2, "peak_host_blocks": 2, "link_s": 0.5,
    }  # fmt: skip


def test_a_victim_for_whom_the_host_has_no_room_is_recomputed():
    log, plain = serve(TINY, replace(SWAP, host_blocks=1), ONE), serve(TINY, TINY_CONFIG, ONE)
    assert list(steps(log)) == list(steps(plain))
    assert (log.what_ifs.swap.swapped, log.what_ifs.swap.recomputed, log.recomputed_tokens) == (0, 1, 8)


def forked(prompt, output, n, **rules):
    trace = Trace(np.zeros(1), np.array([prompt]), np.array([output]), n=np.array([n]))
    config = ServingConfig(**{"num_blocks": 41, "block_size": 4, "token_budget": 64, "max_model_len": 48, **rules})
    return serve(trace, replace(config, fork="cow"), ONE, check=True), serve(trace, config, ONE, check=True)


def test_samples_share_a_prompt_and_copy_its_partly_filled_block():
    cow, none = forked(prompt=6, output=4, n=3)
    # One prompt in two blocks; then each of three writes behind it, and two copy first. Slot 8 is a new block for each.
    assert column(cow, "blocks_used") == [2, 1 + 3, 1 + 3, 1 + 6]
    assert column(cow, "scheduled_tokens") == [6, 3, 3, 3]
    assert column(none, "blocks_used") == [6, 6, 6, 9]
    assert cow.first_token_s.tolist() == [1, 1, 1]
    assert cow.what_ifs.as_json()["fork"] == {
        "forks": 1, "blocks_saved": 2 * 2 - 2, "blocks_copied": 2, "prompt_tokens_saved": 2 * 6,
    }  # fmt: skip


def test_nothing_is_copied_behind_a_full_block():
    cow, _ = forked(prompt=8, output=2, n=3)
    assert column(cow, "blocks_used") == [2, 2 + 3]
    assert cow.what_ifs.fork.blocks_copied == 0


def test_a_sample_that_must_go_comes_back_alone():
    cow, _ = forked(prompt=6, output=9, n=2, num_blocks=6)
    # 1 shared and 2 + 2 of their own are all five blocks: the third block of the second sample is one too many.
    assert [(step, gone) for step, gone in enumerate(column(cow, "preempted")) if gone] == [(7, [1])]
    assert cow.admissions["row"].tolist() == [0, 1, 1]
    assert not np.isnan(cow.finish_s).any()


def test_more_samples_than_there_are_seats_are_rejected():
    cow, none = forked(prompt=6, output=4, n=3, max_num_seqs=2)
    assert cow.rejected.all()
    assert not none.rejected.any()


def test_the_note_s_prefix_is_found_to_its_last_token():
    """Sixteen requests on one prefix of 2,407 tokens, blocks of 16: 150 blocks, and 7 tokens of the next."""
    ids = [[0] * 2407 + [1 + k] * 100 for k in range(16)]
    trace = Trace(
        np.arange(16.0), np.full(16, 2507), np.full(16, 4), hash_ids=HashIds.of(ids), hash_block_tokens=1
    )  # fmt: skip
    config = ServingConfig(token_budget=8192, max_model_len=4096, prefix_caching=True)
    hits = {}
    for unit in (0, 4, 1):
        log = serve(trace, replace(config, prefix_match_unit=unit), ONE, check=True)
        hits[unit] = log.admissions["hit_tokens"].tolist()
    assert hits == {0: [0] + [2400] * 15, 4: [0] + [2404] * 15, 1: [0] + [2407] * 15}
    assert log.what_ifs.as_json()["match"] == {"blocks_copied": 15, "part_tokens": 15 * 7}


def test_a_prompt_that_is_all_there_computes_a_token_and_not_a_block():
    trace = Trace(
        np.array([0.0, 9.0]), np.array([32, 32]), np.ones(2, int), hash_ids=HashIds.of([[1, 2]] * 2),
        hash_block_tokens=16,
    )  # fmt: skip
    config = ServingConfig(num_blocks=9, prefix_caching=True, max_model_len=64)
    found = [
        serve(trace, replace(config, prefix_match_unit=unit), ONE).admissions["hit_tokens"][1] for unit in (0, 16, 8, 1)
    ]
    assert found == [16, 16, 24, 31]


def test_a_decode_fills_a_block_that_lets_the_next_one_in():
    """B's ten tokens are too many beside A's, all in one step; once A's block of six and two is full, six are found."""
    trace = Trace(
        np.zeros(2), np.array([6, 10]), np.array([5, 1]), hash_ids=HashIds.of([[0] * 6, [0] * 10]), hash_block_tokens=1
    )
    config = ServingConfig(
        num_blocks=9, block_size=8, token_budget=10, max_model_len=16, prefix_caching=True, chunked_prefill=False
    )
    admitted = column(serve(trace, replace(config, prefix_match_unit=1), ONE, check=True), "admitted")
    assert admitted[:4] == [[[0, 0]], [], [[1, 6]], []]
    assert column(serve(trace, config, ONE), "admitted")[5] == [[1, 0]], "without it, it waits until A is gone"


def test_a_return_finds_its_own_last_block_up_to_a_token():
    """A and B have one prompt. B is sent back in step 5, which has filled its fourth block, that of its answer.

    C, behind it, takes B's second block, of which A holds a copy. So B finds all its 16 tokens when it comes back, of
    which one must be computed.
    """
    trace = Trace(
        np.zeros(3), np.array([12, 12, 4]), np.array([6, 6, 8]), hash_block_tokens=1,
        hash_ids=HashIds.of([[*range(12)], [*range(12)], [90, 91, 92, 93]]),
    )  # fmt: skip
    config = ServingConfig(
        num_blocks=10, block_size=4, token_budget=40, max_model_len=32, prefix_caching=True, evict="fifo",
        victim="longest", long_prefill_threshold=4,
    )  # fmt: skip
    found = {}
    for unit in (0, 2, 1):
        log = serve(trace, replace(config, prefix_match_unit=unit), ONE, check=True)
        assert column(log, "preempted")[5] == [1]
        found[unit] = log.admissions["hit_tokens"][3]
    assert found == {0: 12, 2: 14, 1: 15}


@pytest.mark.parametrize(("rule", "hits"), [("lru", 0), ("fifo", 0), ("optimal", 6)])
def test_a_loop_that_is_too_long_by_one(rule, hits):
    """Four prompts of a block and a token, over and over, in a pool that keeps three: the textbook's worst for lru.

    Optimal: the fourth takes the place of the third, the third then that of the second, the second that of the first.
    """
    rows = [k % 4 for k in range(12)]
    trace = Trace(
        np.arange(12) * 10.0, np.full(12, 5), np.ones(12, int), hash_ids=HashIds.of([[k, 9] for k in rows]),
        hash_block_tokens=4,
    )  # fmt: skip
    config = ServingConfig(num_blocks=5, block_size=4, prefix_caching=True, max_model_len=16, evict=rule)
    assert serve(trace, config, ONE, check=True).totals()["prefix_hits_first"] == 4 * hits


def test_random_is_drawn_from_the_seed():
    rng = np.random.default_rng(0)
    trace = Trace(
        np.arange(60) * 10.0, np.full(60, 9), np.ones(60, int), hash_block_tokens=4,
        hash_ids=HashIds.of([[int(k), int(k) + 10, 99] for k in rng.integers(0, 5, 60)]),
    )  # fmt: skip
    config = ServingConfig(num_blocks=8, block_size=4, prefix_caching=True, max_model_len=16, evict="random")
    hits = [serve(trace, replace(config, evict_seed=k), ONE).admissions["hit_tokens"].tolist() for k in (0, 0, 1, 2)]
    assert hits[0] == hits[1]
    assert hits[0] != hits[2] or hits[0] != hits[3]
