"""What must hold under every rule: the account adds up at every stretch, and nobody who can be served starves."""

from dataclasses import replace

import numpy as np
import pytest
from cases import cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pagesim.sim.allocators import builtin_names
from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.pool import CountingPool
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.trace import Trace

ALLOCATORS = [name for name in builtin_names() if name != PAGED]


def holds(trace, config, step_time, priority):
    log = serve(trace, config, step_time, priority, check=True)
    assert np.isnan(log.finish_s).tolist() == log.rejected.tolist()
    return log


@settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_paged(case):
    holds(*case)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(prefix_caching=False, preempt="recompute", fork="none"), st.sampled_from(ALLOCATORS))
def test_contiguous(case, allocator):
    trace, config, step_time, priority = case
    longest = min(config.max_model_len, config.usable_tokens)  # one that is longer would be refused
    assume(longest > 1)
    log = holds(trace, replace(config, allocator=allocator, max_model_len=longest), step_time, priority)
    assert not len(log.preemptions)


def test_a_broken_account_is_seen(monkeypatch):
    monkeypatch.setattr(CountingPool, "take", lambda self, blocks: None)
    trace = Trace(np.zeros(5), np.full(5, 20), np.full(5, 40))
    with pytest.raises(AssertionError, match="usable"):
        serve(trace, ServingConfig(num_blocks=400), ConstantStep(1.0), check=True)
