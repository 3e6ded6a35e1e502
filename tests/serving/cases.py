"""Small traces and configurations over all options, for the tests that try many.

Times are dyadic, so that an arrival at the very moment a step begins is such a moment for everyone who adds up.
"""

import numpy as np
from hypothesis import strategies as st

from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import ConstantStep, Knot, LinearStep
from pagesim.sim.trace import HashIds, Labels, Trace

EVICT = ("lru", "lru", "lru", "fifo", "random", "optimal")
VICTIMS = ("last", "last", "last", "longest", "shortest", "fewest-blocks")


@st.composite
def traces(draw, most=30):
    count = draw(st.integers(most // 4, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pause = draw(st.sampled_from((0, 1, 2, 4, 16, 64)))
    arrival_s = np.cumsum(rng.integers(0, pause + 1, count)) / 8
    prompt = rng.integers(1, draw(st.sampled_from((4, 20, 20, 60))) + 1, count)
    prompt = np.where(rng.integers(0, 3, count) == 0, 1 + prompt // 4, prompt)
    output = rng.integers(1, draw(st.sampled_from((1, 6, 20, 40))) + 1, count)
    columns = {}
    if draw(st.integers(0, 3)):
        each, names = draw(st.integers(1, 13)), draw(st.integers(1, 4))
        ids = [rng.integers(0, names, -(-int(p) // each)).tolist() for p in prompt]
        columns = {"hash_ids": HashIds.of(ids), "hash_block_tokens": each}
        for name in ("cache_salt", "adapter"):
            if draw(st.booleans()):
                columns[name] = Labels.of([(None, "a", "b")[k] for k in rng.integers(0, 3, count)])
    if draw(st.integers(0, 3)) == 0:
        columns["n"] = rng.integers(1, draw(st.integers(1, 6)) + 1, count)
    return Trace(arrival_s, prompt, output, **columns)


@st.composite
def configs(draw, trace, **fixed):
    """Rules under which `trace` is hard to serve: mostly there is room for a few of its longest requests, no more."""
    chunked = draw(st.integers(0, 4)) > 0
    policy = draw(st.sampled_from(("fcfs", "fcfs", "fcfs", "priority")))
    block_size = draw(st.integers(1, 9))
    longest = int(trace.total_tokens.max())
    seqs = draw(st.integers(1, 12))
    tight = -(-longest * draw(st.integers(2, 10)) // (4 * block_size))
    options = {
        "num_blocks": 2 + tight + draw(st.integers(0, 3)),
        "block_size": block_size,
        "token_budget": draw(st.sampled_from((max(1, seqs - 2), seqs, seqs + 3, 10, 24, 64))),
        "max_num_seqs": seqs,
        "max_model_len": draw(st.sampled_from((longest, longest, longest, max(2, longest - 10)))),
        "prefix_caching": draw(st.booleans()),
        "chunked_prefill": chunked,
        "long_prefill_threshold": draw(st.sampled_from((0, 0, 1, 2, 5, 11))) if chunked else 0,
        "reserve_full_isl": draw(st.integers(0, 3)) > 0,
        "watermark": draw(st.sampled_from((0.0, 0.0, 0.05, 0.1, 0.3))),
        "policy": policy,
        "victim": "last" if policy == "priority" else draw(st.sampled_from(VICTIMS)),
    }
    options.update(fixed)
    if options["prefix_caching"]:
        options.setdefault("evict", draw(st.sampled_from(EVICT)))
        options["evict_seed"] = draw(st.integers(0, 3))
        units = [unit for unit in range(1, options["block_size"] + 1) if options["block_size"] % unit == 0]
        options.setdefault("prefix_match_unit", draw(st.sampled_from([0, 0, *units])))
    if trace.n is not None and not options["prefix_caching"]:
        options.setdefault("fork", draw(st.sampled_from(("none", "cow", "cow"))))
    if options.setdefault("preempt", draw(st.sampled_from(("recompute", "swap")))) == "swap":
        options["host_blocks"] = draw(st.integers(1, 2 * options["num_blocks"]))
        options["bytes_per_token"] = draw(st.integers(1, 4))
        options["host_bandwidth_bytes_per_s"] = draw(st.sampled_from((16.0, 64.0)))
    return ServingConfig(**options)


def curved(base, token, pair, rises):
    """Knots that are powers of two apart, so that times in between are dyadic too."""
    knots = zip((3, 7, 23), (token + np.cumsum(rises)).tolist(), strict=True)
    return LinearStep(base / 8, token / 64, pair / 512, 1 / 32, curve=tuple(Knot(k, n / 64) for k, n in knots))


step_times = st.one_of(
    st.builds(lambda k: ConstantStep(k / 8), st.integers(1, 16)),
    st.builds(
        lambda base, token, pair, sequence: LinearStep(base / 8, token / 64, pair / 512, sequence / 32),
        *(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    ),
    st.builds(
        curved,
        *(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3), st.tuples(*[st.integers(0, 64)] * 3)),
    ),
)


@st.composite
def cases(draw, **fixed):
    """(trace, config, step time, priorities or None)."""
    trace = draw(traces())
    config = draw(configs(trace, **fixed))
    priority = None
    if config.policy == "priority":
        count = len(trace) if trace.n is None else int(trace.n.sum())
        priority = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return trace, config, draw(step_times), priority
