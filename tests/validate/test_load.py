"""Loads in real time, and the tokens that they are made of."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs pagesim[engine]")

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pagesim.engine import Engine, EngineConfig
from pagesim.validate.load import Arrival, batch_load, run_load, warm_up
from pagesim.validate.load_tokens import private_tokens, shared_tokens

ids = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6)


def tiny(**options: Any) -> Engine:
    return Engine(EngineConfig("random:tiny", **({"num_blocks": 80, "max_model_len": 128} | options)))


@given(ids, ids, st.integers(1, 20), st.integers(1, 2000))
def test_prompts_share_what_their_ids_share(first: list[int], second: list[int], block: int, vocab: int) -> None:
    one, two = (shared_tokens(each, block, len(each) * block - block // 2, vocab) for each in (first, second))
    assert all(0 <= token < vocab for token in (*one, *two))
    for place in range(min(len(first), len(second))):
        if first[place] == second[place]:
            blocks = [tokens[place * block : (place + 1) * block] for tokens in (one, two)]
            size = min(map(len, blocks))
            assert blocks[0][:size] == blocks[1][:size]
    assert len(one) == len(first) * block - block // 2


def test_ids_that_differ_give_tokens_that_differ_and_so_do_places() -> None:
    prompts = [shared_tokens([id], 64, 64, 1024) for id in range(200)]
    prompts += [private_tokens(owner, 64, 1024, seed) for owner in range(100) for seed in (0, 1)]
    assert len({tuple(prompt) for prompt in prompts}) == 400
    twice = shared_tokens([5, 5], 64, 128, 1024)
    assert twice[:64] != twice[64:]
    assert len(set(prompts[0])) > 48, "tokens look drawn"


def test_arrivals_are_honoured_and_everything_is_counted() -> None:
    engine = tiny()
    warm_up(engine)
    arrivals = [Arrival(100.0 + at, [1, 2, 3], 4, n=n) for at, n in ((0.0, 1), (0.2, 2), (0.4, 1))]
    arrivals.append(Arrival(100.4, [1] * 100, 29))
    ended = []
    began_s = time.monotonic()
    log = run_load(engine, arrivals, ended.append)
    assert 0.4 <= log.duration_s <= time.monotonic() - began_s
    assert (log.requests, log.rejected, log.prompt_tokens, log.output_tokens) == (3, 1, 9, 16)
    assert ended == [1] * 4
    assert [len(values) for values in (log.ttft_s, log.itl_s, log.tpot_s, log.e2e_s)] == [4, 12, 4, 4]
    assert all(0 < first < whole for first, whole in zip(log.ttft_s, log.e2e_s, strict=True))
    assert sum(log.itl_s) == pytest.approx(3 * sum(log.tpot_s))
    assert engine.cache.blocks_used == 0


def test_latency_counts_the_time_in_the_queue() -> None:
    log = run_load(tiny(max_num_seqs=1), batch_load(3, 5, 10, 1024, 0), lambda steps: None)
    assert log.ttft_s[0] < log.e2e_s[0] < log.ttft_s[1] < log.e2e_s[1] < log.ttft_s[2]


def test_a_load_of_nothing() -> None:
    log = run_load(tiny(), [], lambda steps: None)
    assert (log.requests, log.output_tokens, log.ttft_s) == (0, 0, [])
