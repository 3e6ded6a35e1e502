"""The simulator and the engine's scheduler agree in every step: recordings, drawn cases, public traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from replayed import PUBLIC, RECORDINGS, experiments, golden, public, recorded

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.scenario import read_scenario
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.trace import Trace
from pagesim.validate.replay.comparison import FROM_ROWS, different_outside_steps, first_divergence
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.invariants import broken_rules
from pagesim.validate.replay.log import ReplayLog, ReplayStep
from pagesim.validate.replay.logical import Logical, replay_logically
from pagesim.validate.replay.prompts import Prompts
from pagesim.validate.replay.result import ReplayResult
from pagesim.validate.replay.words import verdict

T4 = LinearStep(7.825e-3, 35.74e-6, 127.0e-9, 17.2e-6)
RULES: dict[str, dict[str, Any]] = {
    "paged": {},
    "paged, prefix caching": {"prefix_caching": True},
    "paged, small chunks, prefix caching": {
        "prefix_caching": True,
        "token_budget": 256,
        "long_prefill_threshold": 96,
        "reserve_full_isl": False,
    },
    "paged, prompts whole, a watermark": {"chunked_prefill": False, "watermark": 0.05},
    "reservation": {"allocator": "reservation"},
    "exact-fit": {"allocator": "exact-fit"},
    "exact-fit:best, small chunks": {"allocator": "exact-fit:best", "token_budget": 256},
    "forks": {"fork": "cow"},
    "samples apart, prefix caching": {"prefix_caching": True},
}


def check(found: Logical) -> None:
    assert found.findings == () and found.divergence is None
    assert found.other is not None and found.steps_that_agree == len(found.other.steps)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_recordings(path: Path) -> None:
    found = replay_logically(recorded(path))
    check(found)
    assert found.other is not None
    assert found.other.totals == read_scenario(path).totals | {"steps": len(found.other.steps)}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(experiments())
def test_drawn(experiment: Experiment) -> None:
    check(replay_logically(experiment))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", PUBLIC)
def test_public_traces(name: str, rules: str) -> None:
    trace = public(name, prompt_tokens=960, output_tokens=64)
    if rules in ("forks", "samples apart, prefix caching"):
        trace = replace(trace, n=np.random.default_rng(0).integers(1, 4, len(trace)))
    config = ServingConfig(**{"num_blocks": 257, "max_model_len": 1024, "max_num_seqs": 64} | RULES[rules])
    found = replay_logically(Experiment(trace, config, T4))
    check(found)
    assert found.other is not None and not found.other.rejected
    assert sum(len(step.finished) for step in found.other.steps) == trace.num_samples


def test_requests_that_one_side_would_cut_are_left_out_and_counted() -> None:
    trace = Trace(np.zeros(3), np.array([6, 9, 30]), np.array([5, 5, 1]))
    found = replay_logically(Experiment(trace, ServingConfig(num_blocks=4, block_size=4, max_model_len=20), T4))
    check(found)
    assert found.not_offered == 1
    assert found.other is not None and found.other.rejected == {1}  # 13 slots, of 12


def test_rounding_decides_no_arrival() -> None:
    """Steps of 0.1 s, added one by one and reckoned at once, and somebody arrives at each tenth of a second."""
    trace = Trace(np.arange(60) / 10, np.full(60, 3), np.full(60, 30))
    found = replay_logically(Experiment(trace, ServingConfig(num_blocks=300), ConstantStep(0.1)))
    check(found)


def test_prompts_are_made_of_their_ids() -> None:
    experiment = golden("tiny_prefix")
    for vocab in (None, 1024):
        prompts = [Prompts(experiment.samples, vocab).of(row) for row in range(5)]
        a, b, c, d, e = prompts
        assert [len(each) for each in prompts] == [12, 12, 10, 12, 8]
        assert a == b == d and c[:8] == a[:8] and c[8:] != a[8:10]
        assert e[:4] == a[4:8] or vocab  # equal text behind another prefix; hashed, it may as well be another
        assert all(0 <= token < (vocab or 100) for each in prompts for token in each)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"allocator": "buddy"}, "--allocator buddy cannot be replayed: the engine has none"),
        ({"victim": "longest"}, "--victim longest cannot"),
        ({"evict": "fifo", "prefix_caching": True}, "--evict fifo cannot"),
        ({"prefix_match_unit": 4, "prefix_caching": True}, "--prefix-match-unit 4 cannot"),
        ({"allocator": "reservation", "watermark": 0.1}, "--watermark 0.1 cannot be replayed: with reservation"),
        ({"chunked_prefill": False, "token_budget": 64}, "--token-budget 64 cannot be replayed: without chunked"),
        ({"fork": "cow", "token_budget": 64}, "--token-budget 64 cannot be replayed: with forks"),
    ],
)
def test_what_the_two_define_differently_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Experiment(Trace(np.zeros(1), np.ones(1), np.ones(1)), ServingConfig(**changes), T4)


def changed(number: int, **columns: Any) -> ReplayLog:
    """The log of tiny_preempt with one step changed."""
    found = replay_logically(golden("tiny_preempt"))
    assert found.other is not None
    steps = list(found.other.steps)
    steps[number] = ReplayStep(**steps[number]._asdict() | columns)
    return replace(found.other, steps=steps)


@pytest.mark.parametrize("side", ["simulator", "engine"])
def test_a_difference_in_any_column_of_a_step_is_the_divergence(side: str) -> None:
    sound = changed(0)
    now = sound.steps[4]
    other = {"admitted": ((0, 4),), "preempted": (0,), "finished": (0, 1)}
    for column in set(ReplayStep._fields) - {"step"}:
        value = other[column] if column in other else getattr(now, column) + 1
        assert value != getattr(now, column)
        logs = (changed(4, **{column: value}), sound)
        found = first_divergence(*(logs if side == "simulator" else logs[::-1]))
        assert found is not None and (found.number, found.columns) == (4, (column,))
    assert first_divergence(sound, changed(0)) is None


def test_a_sum_that_no_step_shows_is_compared_both_ways() -> None:
    sound, experiment = changed(0), golden("tiny_preempt")
    hidden = set(sound.totals) - set(FROM_ROWS)
    assert {"scheduled_tokens", "recomputed_tokens", "prefix_hits_first", "prefix_queries_first"} <= hidden
    for name in hidden:
        odd = replace(sound, totals=sound.totals | {name: sound.totals[name] + 1})
        for pair in ((sound, odd), (odd, sound)):
            (line,) = different_outside_steps(*pair, experiment)
            assert line.startswith(f"{name.replace('_', ' ')}: ")


def test_nobody_to_serve_is_no_agreement() -> None:
    trace = Trace(np.arange(2.0), np.full(2, 60), np.full(2, 41))
    config = ServingConfig(max_model_len=100)
    with pytest.raises(UsageError, match=r"none of 2 requests has --max-model-len 100 tokens or less"):
        Experiment(trace, config, T4).check_offered()
    some = Experiment(replace(trace, output_tokens=np.array([41, 40])), config, T4)
    some.check_offered()
    assert some.offered == 1
    result = ReplayResult("", "", some, replay_logically(some), None)
    assert verdict(result).endswith(f"{result.logical.steps_that_agree} steps over 1 requests.")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (lambda: changed(4, step=5), "step 5 comes where step 4 should"),
        (lambda: changed(4, start_s=3.0), "not after the step before it"),
        (lambda: changed(4, scheduled_tokens=17), "scheduled_tokens 17; must be from 0 to 16"),
        (lambda: changed(4, blocks_used=9), "blocks_used 9; must be from 0 to 8"),
        (lambda: changed(4, blocks_used=0), "2 run and 0 blocks are used"),
        (lambda: changed(4, running=3), "3 run, but 2 were let in"),
        (lambda: changed(4, waiting=0), "0 wait, but 1 came"),
        (lambda: changed(4, preempted=()), "2 run, but 3 were let in"),
        (lambda: changed(5, preempted=(2,)), "preempts C, which does not run"),
        (lambda: changed(4, admitted=((2, 0),)), "step 4 preempts and admits"),
        (lambda: changed(0, admitted=((0, 0), (0, 0))), "admits A, which runs"),
        (lambda: changed(0, admitted=((0, 0), (2, 0))), "admits C before it arrives"),
        (lambda: changed(0, admitted=((1, 0), (0, 0))), "A is let in after one that came later"),
        (lambda: changed(6, admitted=((2, 4),)), "C finds 4 tokens, not whole blocks"),
        (lambda: changed(5, finished=(2,)), "finishes C, which does not run"),
        (lambda: changed(9, finished=()), "1 requests never finish, C the first"),
        (lambda: replace(changed(0), totals=changed(0).totals | {"recomputed_tokens": 7}), "39 tokens were computed"),
    ],
)
def test_each_log_is_checked_by_itself(log: Any, words: str) -> None:
    said = broken_rules(log(), golden("tiny_preempt"))
    assert any(words in line for line in said), said


def test_a_sound_log_breaks_no_rule() -> None:
    assert broken_rules(changed(0), golden("tiny_preempt")) == []
