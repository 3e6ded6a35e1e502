"""What no run may pass: waste inside what is owned, waste outside it, and the load that an endless pool carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replications import RUNS, assert_agrees

from pagesim.sim.allocators import Pool, allocator_class, builtin_names
from pagesim.sim.config import RunConfig, WorkloadConfig
from pagesim.sim.drawing import Drawn
from pagesim.sim.measures import measure
from pagesim.sim.offered import residence_of
from pagesim.sim.placement import ADMITTED, DROPPED, REFUSED, REJECTED, PlacementLog, place_all
from pagesim.sim.trace import Floats, Trace
from pagesim.sim.workload import PRESETS, Load

LONGEST_STAY_S = 8.0  # 2,048 tokens, where 260 stay a second in the mean

BOUNDS = settings(max_examples=40, deadline=None, derandomize=True)


@st.composite
def busy(draw: st.DrawFn) -> tuple[Trace, Floats, Pool]:
    """A trace that asks for about one and a half times its pool."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    longest, block_size = draw(st.integers(4, 60)), draw(st.integers(1, 20))
    pool = Pool(draw(st.integers(4, 12)) * longest + draw(st.integers(0, 19)), longest, block_size)
    prompt = rng.integers(1, longest // 2 + 1, 150)
    trace = Trace(np.cumsum(rng.exponential(1, 150)), prompt, rng.integers(1, longest // 2 + 1, 150))
    return trace, rng.exponential(1.5 * pool.capacity_tokens / trace.total_tokens.mean(), 150), pool


def owned_in_the_end(log: PlacementLog) -> np.ndarray[Any, Any]:
    return log.owned + np.bincount(log.growths["request"], log.growths["slots"], len(log.owned)).astype(np.int64)


@pytest.mark.parametrize("growth", ["final", "token"])
@pytest.mark.parametrize("name", builtin_names())
@BOUNDS
@given(busy())
def test_waste_inside_what_is_owned(name: str, growth: Any, case: tuple[Trace, Floats, Pool]) -> None:
    trace, residence, pool = case
    log = place_all(trace, residence, allocator_class(name)(pool), growth)
    entered = (log.outcome == ADMITTED) | (log.outcome == DROPPED)
    assert not log.owned[~entered].any() and entered.any()
    owned, final = owned_in_the_end(log)[entered], trace.total_tokens[entered]
    whole = owned[log.outcome[entered] == ADMITTED] - final[log.outcome[entered] == ADMITTED]
    if name.startswith("exact-fit"):
        assert (owned == final).all()
    elif name == "buddy":
        assert (2 * (owned - final) < owned).all() and (owned & (owned - 1) == 0).all()
    elif name == "reservation":
        assert (owned == pool.max_model_len).all()
    elif growth == "final":
        assert (whole >= 0).all() and (whole <= pool.block_size - 1).all() and (owned % pool.block_size == 0).all()
    else:
        assert (whole >= -1).all() and (whole <= pool.block_size - 1).all(), "the last token needs no slot"
    figures = measure(trace, residence, log, pool.capacity_tokens, pool.max_model_len, growth, 0.0)
    if name.startswith("exact-fit"):
        assert np.abs(figures.series.internal).max() <= 1e-9
    if name == "buddy":
        assert (figures.series.internal < figures.series.occupied / 2 + 1e-9).all()


@pytest.mark.parametrize("growth", ["final", "token"])
@BOUNDS
@given(busy())
def test_waste_outside_is_no_more_than_the_tail_of_the_pool(growth: Any, case: tuple[Trace, Floats, Pool]) -> None:
    trace, residence, pool = case
    for name, piece in (("reservation", pool.max_model_len), ("paged", pool.block_size)):
        refusals = place_all(trace, residence, allocator_class(name)(pool), growth).refusals
        tail = pool.capacity_tokens % piece
        assert (refusals["free"] - tail < refusals["asked"]).all(), f"{name} refused what fits beside the tail"
        assert (refusals["free"] % piece == tail).all()
        if name == "reservation":
            assert (refusals["free"] == tail).all(), "it refuses only when no reservation is left"


@pytest.mark.parametrize("name", builtin_names())
@BOUNDS
@given(busy())
def test_no_request_is_refused_that_fits_into_the_largest_free_run(name: str, case: tuple[Trace, Floats, Pool]) -> None:
    trace, residence, pool = case
    log = place_all(trace, residence, allocator_class(name)(pool))
    asked, largest = log.refusals["asked"], log.refusals["largest_free_run"]
    if name == "buddy":
        assert (2 ** np.ceil(np.log2(asked)) > largest).all()
    elif name == "paged":
        assert (asked > log.refusals["free"] - pool.capacity_tokens % pool.block_size).all()
    elif name == "reservation":
        assert (largest < pool.max_model_len).all()
    elif name.endswith(":compact"):
        assert (asked > log.refusals["free"]).all()
    else:
        assert (asked > largest).all()
    counts = [int((log.outcome == fate).sum()) for fate in (ADMITTED, REFUSED, REJECTED, DROPPED)]
    assert sum(counts) == len(trace) and counts[1] == len(log.refusals)


@pytest.mark.parametrize(
    ("load", "growth"), [(PRESETS["high"], "final"), (Load(0.6, "pool"), "final"), (PRESETS["high"], "token")]
)
def test_an_endless_pool_holds_the_load_that_is_offered(load: Load, growth: Any) -> None:
    """Little's law: rate * E[length * residence] tokens are there in the mean; a load of 1.4 is 1.4 pools of them.

    While tokens grow, P + (O - 1)/2 of the P + O are there in the mean over a residence.
    """
    config = RunConfig(workload=WorkloadConfig(num_requests=6_000), num_runs=RUNS)
    drawn, tokens, means = Drawn(config), 60_000, []
    total = drawn.workload.lengths.moments(config.max_model_len)
    rate = load.rate_per_s(residence_of(config, total), total, tokens, config.max_model_len)
    held = residence_of(config, total)
    a_second = held.output_s
    offered = rate * a_second * (total.pp + 2 * total.po + total.oo) / tokens
    assert offered == pytest.approx(load.erlangs)
    growing = rate * a_second * (total.pp + 1.5 * total.po + total.oo / 2 - (total.p + total.o) / 2) / tokens
    for trace in drawn.traces():
        paced = trace.with_arrivals(trace.arrival_s * drawn.workload.rate_per_s / rate)
        residence = held.of(paced)
        log = place_all(paced, residence, allocator_class("paged")(Pool(40 * tokens, 2048, 64)), growth)
        assert (log.outcome == ADMITTED).all()
        warmup = LONGEST_STAY_S / paced.arrival_s[-1]
        means.append(40 * float(measure(paced, residence, log, 40 * tokens, 2048, growth, warmup).means.used[0]))
    assert_agrees(means, offered if growth == "final" else growing, 0.1, "pools full of tokens")
