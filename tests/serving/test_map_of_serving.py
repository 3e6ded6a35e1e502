"""The recording of a served run: played, it comes to the account of the log in every step, block for block."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pagesim.sim.poolmap.playback import Playback
from pagesim.sim.poolmap.recording import NO_TIME, Kind, NoMapError
from pagesim.sim.poolmap.served import record_serving
from pagesim.sim.poolmap.window import Window, serving_window
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.scenario import read_scenario
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.serving.timeline import Timeline
from pagesim.sim.trace import HashIds, Trace

WHOLE = Window(0.0, float("inf"), True, "all")
MAPPED = {"evict": "lru", "prefix_match_unit": 0}


def kinds(recording):
    return Counter(event.kind for moment in recording.moments for event in moment.events)


def compare(recording, log):
    """Every step's moment has the step's account; how many steps there were."""
    line, played, compared = Timeline(log), Playback(recording), 0
    at = {time_s: step for step, time_s in enumerate(line.start_s.tolist())}
    internal = line.internal_tokens
    for moment in recording.moments:
        played.apply(moment)
        step = at.get(moment.time_s)
        if step is None:
            continue
        compared += 1
        account = played.account(moment.time_s)
        assert account.used == line.used_tokens[step], step
        assert account.internal == internal[step], step
        assert account.used + account.reserved + account.internal == line.held_tokens[step], step
        assert account.free == recording.capacity - line.held_tokens[step]
    return compared


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases(**MAPPED))
def test_paged_runs_come_to_the_account_of_the_log(case):
    trace, config, step_time, priority = case
    log = serve(trace, config, step_time, priority)
    try:
        recording = record_serving("paged", trace, log, WHOLE)
    except NoMapError:
        assert config.policy == "priority" and config.prefix_caching, "only there may the map give up"
        return
    assert compare(recording, log) == log.num_steps
    assert kinds(recording)[Kind.PREEMPT] <= len(log.preemptions)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(["reservation", "exact-fit", "buddy", "exact-fit:best"]))
def test_contiguous_runs_do_too(data, name):
    trace, config, step_time, priority = data.draw(
        cases(allocator=name, prefix_caching=False, preempt="recompute", fork="none")
    )
    assume(config.usable_tokens >= config.max_model_len)
    log = serve(trace, config, step_time, priority)
    recording = record_serving(name, trace, log, WHOLE)
    assert compare(recording, log) == log.num_steps


def test_a_window_opens_with_the_state_of_its_time():
    rng = np.random.default_rng(1)
    count = 60
    trace = Trace(np.arange(count) / 4, rng.integers(5, 60, count), rng.integers(5, 60, count))
    config = ServingConfig(num_blocks=40, block_size=4, max_num_seqs=8, max_model_len=200)
    log = serve(trace, config, ConstantStep(0.25))
    assert len(log.preemptions)
    window = serving_window({"paged": log}, 30)
    preempted_s = Timeline(log).start_s[log.preemptions["step"][0]]
    assert (
        window.from_s < preempted_s < window.to_s
        and not window.whole
        and window.around == "around the first preemption"
    )
    recording = record_serving("paged", trace, log, window)
    assert recording.moments[0].time_s == NO_TIME and recording.moments[0].events
    assert recording.moments[1].time_s == window.from_s and recording.moments[-1].time_s == window.to_s
    assert compare(recording, log) == len(recording.moments) - 1 == 30
    assert serving_window({"paged": log}, 30, from_s=2.0).from_s == 2.0


def test_a_hit_names_the_block_that_was_computed_and_a_copy_leaves_the_shared_one():
    ids = HashIds.of([[7], [7]])
    trace = Trace(np.array([0.0, 1.0]), np.array([9, 9]), np.array([8, 8]), hash_ids=ids, hash_block_tokens=9)
    config = ServingConfig(num_blocks=20, block_size=4, max_model_len=40, prefix_caching=True)
    recording = record_serving("paged", trace, serve(trace, config, ConstantStep(1.0)), WHOLE)
    events = [event for moment in recording.moments for event in moment.events]
    first = next(event for event in events if event.kind is Kind.GIVE and event.owner == 0)
    shared = next(event for event in events if event.kind is Kind.SHARE)
    assert shared.owner == 1 and shared.pieces == first.pieces[:2], "two full blocks, and the third is computed"

    trace = Trace(np.array([0.0]), np.array([6]), np.array([5]), n=np.array([3]))
    config = ServingConfig(num_blocks=20, block_size=4, max_model_len=40, fork="cow")
    recording = record_serving("paged", trace, serve(trace, config, ConstantStep(1.0)), WHOLE)
    assert kinds(recording)[Kind.SHARE] == 2 and kinds(recording)[Kind.COPY] == 2, "the last who writes needs no copy"


@pytest.mark.parametrize("options", [{"evict": "fifo"}, {"prefix_match_unit": 2}])
def test_rules_that_the_map_does_not_follow_are_refused_by_name(options):
    trace = Trace(np.array([0.0]), np.array([6]), np.array([5]))
    config = ServingConfig(num_blocks=20, block_size=4, max_model_len=40, prefix_caching=True, **options)
    with pytest.raises(NoMapError, match="the map does not follow --"):
        record_serving("paged", trace, serve(trace, config, ConstantStep(1.0)), WHOLE)


GOLDEN = sorted((Path(__file__).parents[1] / "data" / "golden").glob("*prefix*.json.gz"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_recordings_of_vllm_with_prefix_caching_are_mapped_whole(path):
    scenario = read_scenario(path)
    log = serve(scenario.trace, scenario.config, ConstantStep(1.0))
    recording = record_serving("paged", scenario.trace, log, WHOLE)
    assert compare(recording, log) == log.num_steps and kinds(recording)[Kind.SHARE] > 0
