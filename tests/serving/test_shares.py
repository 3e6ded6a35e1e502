"""The four kinds of slots, by hand and over drawn runs."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.shares import pool_shares
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.trace import Trace

SECOND = ConstantStep(1.0)
SMALL = ServingConfig(num_blocks=5, block_size=4, max_model_len=16)  # 16 slots
POW2 = "pagesim.sim.allocators.orca:OrcaPow2"


def requests(*rows):
    """(arrival_s, prompt, answer) of each."""
    arrival_s, prompt, answer = zip(*rows, strict=True)
    return Trace(np.array(arrival_s, np.float64), np.array(prompt), np.array(answer))


def shares(trace, allocator, asked, start_s=0.0, end_s=100.0):
    """Of 16 slots, as slots; then the batch and the share of time in which somebody waits."""
    log = serve(trace, replace(SMALL, allocator=allocator), SECOND)
    found = pool_shares(log, None if asked is None else np.array(asked), start_s, end_s)
    *kinds, batch, waited = astuple(found)
    return [16 * kind for kind in kinds], batch, waited


ONE = requests((0, 4, 4))  # four steps, which hold 4, 5, 6 and 7 tokens: 5.5 in the mean


@pytest.mark.parametrize(
    ("allocator", "asked", "kinds"),
    [
        ("buddy", [8], [5.5, 2.5, 0, 8]),
        ("exact-fit", [8], [5.5, 2.5, 0, 8]),
        ("reservation", [16], [5.5, 2.5, 8, 0]),
        ("paged", None, [5.5, 0, 1.5, 9]),  # one block in the first step, two in the others: 7 slots
    ],
)
def test_one_request(allocator, asked, kinds):
    found, batch, waited = shares(ONE, allocator, asked)
    assert found == pytest.approx(kinds, abs=1e-12)
    assert (batch, waited) == (1.0, 0.0)


def test_what_the_buddy_system_adds_is_external():
    # 4 + 3 tokens; asked for 4 + 4; three steps hold 4, 5 and 6. Then 4 + 5: asked for 4 + 8, a run of 16.
    assert shares(requests((0, 4, 3)), POW2, [8])[0] == pytest.approx([5, 2, 1, 8], abs=1e-12)
    assert shares(requests((0, 4, 5)), POW2, [12])[0] == pytest.approx([6, 3, 3, 4], abs=1e-12)
    assert shares(requests((0, 4, 5)), "buddy", [9])[0] == pytest.approx([6, 3, 0, 7], abs=1e-12)


def test_time_in_which_nothing_runs_counts():
    found, batch, waited = shares(requests((0, 4, 4), (8, 4, 4)), "buddy", [8, 8])
    assert found == pytest.approx([5.5 * 8 / 12, 2.5 * 8 / 12, 0, 16 - 8 * 8 / 12], abs=1e-12)
    assert (batch, waited) == (pytest.approx(8 / 12), 0.0)


def test_who_waits():
    found, batch, waited = shares(requests((0, 4, 4), (0, 4, 4)), "reservation", [16, 16])
    assert found == pytest.approx([5.5, 2.5, 8, 0], abs=1e-12)
    assert (batch, waited) == (1.0, 0.5)


def test_a_part_of_the_time():
    found, *_ = shares(ONE, "buddy", [8], start_s=0.5, end_s=4.0)  # without the prefill
    assert found == pytest.approx([6, 2, 0, 8], abs=1e-12)
    found, *_ = shares(ONE, "buddy", [8], end_s=3.5)  # the decodes are one stretch, which ends later
    assert found == pytest.approx([4, 4, 0, 8], abs=1e-12)


@pytest.mark.parametrize("allocator", ["reservation", "buddy", "exact-fit", POW2, "paged"])
@pytest.mark.parametrize("seed", range(5))
def test_they_sum_to_the_pool(allocator, seed):
    rng = np.random.default_rng(seed)
    arrival_s, prompt = np.cumsum(rng.exponential(0.05, 200)), rng.integers(1, 60, 200)
    trace = Trace(arrival_s, prompt, rng.integers(1, 60, 200))
    log = serve(
        trace, ServingConfig(num_blocks=70, max_model_len=128, allocator=allocator), LinearStep(0.01, 1e-4, 0, 0)
    )
    asked = {"reservation": np.full(200, 128), "paged": None}.get(allocator, trace.total_tokens)
    if allocator == POW2:
        asked = np.array(
            [min(p + 2 ** int(np.ceil(np.log2(o))), 128) for p, o in zip(prompt, trace.output_tokens, strict=True)]
        )
    found = pool_shares(log, asked, 1.0, float(arrival_s[-1]))
    kinds = astuple(found)[:4]
    assert sum(kinds) == pytest.approx(1, abs=1e-12)
    assert min(kinds) >= 0 and found.token_states > 0.05
    assert found.internal == 0 if allocator in ("buddy", "exact-fit") else found.internal > 0
    assert found.batch == pytest.approx(((log.duration_s * log.segments["running"])[inside(log, arrival_s[-1])]).sum()
                                        / span(log, arrival_s[-1]))  # fmt: skip


def inside(log, end_s):
    return (log.segments["start_s"] >= 1.0) & (log.segments["start_s"] + log.duration_s <= end_s)


def span(log, end_s):
    segments, duration_s = log.segments[inside(log, end_s)], log.duration_s[inside(log, end_s)]
    return segments["start_s"][-1] + duration_s[-1] - segments["start_s"][0]


def test_what_does_not_go_together_is_refused():
    log = serve(ONE, replace(SMALL, allocator="buddy"), SECOND)
    with pytest.raises(UsageError, match=r"^shares of buddy; accepted: slots asked for"):
        pool_shares(log, None, 0.0, 9.0)
    with pytest.raises(UsageError, match=r"^no step from 9 to 10 s; accepted"):
        pool_shares(log, np.array([8]), 9.0, 10.0)
    with pytest.raises(UsageError, match=r"^shares of paged; accepted"):
        pool_shares(serve(ONE, SMALL, SECOND), np.array([8]), 0.0, 9.0)
