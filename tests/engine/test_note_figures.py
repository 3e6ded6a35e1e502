"""The note's figures that are the scheduler's own: counts, which need no card and no model.

`starved` and its cached twin are chaotic in the timing of arrivals; the exact counts here are those of vLLM's own
scheduler, driven without a model, for the same requests.
"""

from __future__ import annotations

import pytest
from without_model import AuditedScheduler, drive, new_prompt, scheduler, sequence

from pagesim.engine.sequence import Sequence


def starved(token_budget: int, *, prefix_caching: bool = False) -> tuple[AuditedScheduler, list[Sequence]]:
    """200 requests of 9 + 1,015 tokens, and 77,312 tokens of cache in blocks of 16."""
    engine = scheduler(4832, 1024, block_size=16, token_budget=token_budget, prefix_caching=prefix_caching)
    everybody = [sequence(str(i), 9, 1015) for i in range(200)]
    for _ in drive(engine, {0: everybody}, check=False):
        pass
    return engine, everybody


@pytest.mark.parametrize(("token_budget", "preemptions", "steps"), [(8192, 184, 1908), (2048, 168, 1883)])
def test_the_starved_pool_delays_and_refuses_nobody(token_budget: int, preemptions: int, steps: int) -> None:
    engine, everybody = starved(token_budget)
    assert (engine.totals.preemptions, engine.totals.steps) == (preemptions, steps)
    assert all(len(each.outputs) == 1015 for each in everybody)


def test_those_who_come_back_to_a_starved_pool_find_almost_nothing_in_its_cache() -> None:
    totals = starved(8192, prefix_caching=True)[0].totals
    assert (totals.preemptions, totals.prefix_queries_return, totals.prefix_hits_return) == (184, 102_040, 5_488)


def test_sixteen_requests_behind_one_prefix_compute_it_once() -> None:
    engine = scheduler(4000, 4096, block_size=16, token_budget=8192, prefix_caching=True)
    prefix = new_prompt(2407)
    rows = list(drive(engine, {0: [sequence(str(i), prefix + new_prompt(3), 4) for i in range(16)]}))
    assert [hit for row in rows for _, hit in row["admitted"]] == [0] + [2400] * 15  # type: ignore[attr-defined]


@pytest.mark.parametrize(("fork", "computed", "blocks"), [(True, 1447, 91), (False, 8 * 1447, 8 * 91)])
def test_eight_samples_compute_the_prompt_once_as_forks_and_eight_times_as_requests(
    fork: bool, computed: int, blocks: int
) -> None:
    engine = scheduler(1000, 4096, block_size=16, token_budget=2 * 8192)
    prompt = new_prompt(1447)
    samples = [sequence(str(i), prompt, 20) for i in range(8)]
    if fork:
        samples[0].forks = tuple(samples[1:])
    rows = list(drive(engine, {0: samples[:1] if fork else samples}))
    assert (rows[0]["scheduled_tokens"], rows[0]["blocks_used"]) == (computed, blocks)
    assert rows[1]["blocks_used"] == (90 + 8 if fork else blocks)
    assert engine.totals.sampled_tokens == 160 and all(len(each.outputs) == 20 for each in samples)
