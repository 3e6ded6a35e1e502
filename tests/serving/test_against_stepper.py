"""The leaping simulator against the plain stepper: every step, every time, every sum."""

import numpy as np
import pytest
from cases import cases
from hypothesis import HealthCheck, given, settings
from stepper import Stepper

from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steps import steps
from pagesim.sim.serving.timeline import Timeline

MANY = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SOME = settings(MANY, max_examples=300)


def gaps_of(log):
    """Every interval between two tokens of one request, sorted."""
    gaps = [*log.odd_gaps["length_s"]]
    for segment in log.segments:
        for k in range(int(segment["steps"])):
            gaps += [segment["first_s"] + k * segment["growth_s"]] * int(segment["gaps"])
    return sorted(gaps)


def accounts_agree(line, judge):
    """Every slot of the pool in every step: held, used, never to be filled, free and of no use, free and cached."""
    columns = {
        "used": line.used_tokens,
        "internal": line.internal_tokens,
        "held": line.held_tokens,
        "cached": line.cached_blocks,
        "unusable": line.unusable_tokens,
    }
    for name, column in columns.items():
        assert column.tolist() == [account[name] for account in judge.accounts], name


def agree(trace, config, step_time, priority=None):
    judge = Stepper(trace, config, step_time, priority).run()
    log = serve(trace, config, step_time, priority)
    accounts_agree(Timeline(log), judge)
    rows = list(steps(log))
    for got, wanted in zip(rows, judge.rows, strict=False):
        assert got.pop("t") == pytest.approx(wanted.pop("t"), rel=0, abs=1e-9)
        assert got == wanted
    assert len(rows) == len(judge.rows)
    totals = log.totals()
    assert {name: totals[name] for name in judge.totals} == judge.totals
    if log.what_ifs.swap is not None:
        counts = log.what_ifs.as_json()["swap"]
        assert {name: counts[name] for name in judge.swaps} == judge.swaps
    if log.what_ifs.fork is not None:
        assert log.what_ifs.as_json()["fork"] == judge.forks
    assert np.flatnonzero(log.rejected).tolist() == [request.row for request in judge.rejected]
    for request in judge.requests:
        if request not in judge.rejected:
            times = log.admitted_s[request.row], log.first_token_s[request.row], log.finish_s[request.row]
            wanted = request.admitted_s, request.sampled_s[0], request.sampled_s[-1]
            assert times == pytest.approx(wanted, rel=0, abs=1e-9)
    assert gaps_of(log) == pytest.approx(sorted(judge.gaps), rel=0, abs=1e-9)


@MANY
@given(cases())
def test_all_options(case):
    agree(*case)


@SOME
@given(cases(chunked_prefill=True, long_prefill_threshold=3, token_budget=7, max_num_seqs=6, num_blocks=60))
def test_decodes_behind_long_prompts(case):
    """A prompt that is cut short in front of decodes may leave them nothing."""
    agree(*case)


@SOME
@given(cases(chunked_prefill=True, long_prefill_threshold=4, prefix_caching=True, token_budget=40, max_num_seqs=12))
def test_copies_of_one_block(case):
    """Prompts that are computed beside each other fill equal blocks."""
    agree(*case)


@SOME
@given(cases(prefix_caching=True, prefix_match_unit=1))
def test_matches_inside_blocks(case):
    agree(*case)
