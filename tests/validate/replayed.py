"""Experiments to replay: recordings, drawn cases, and the first thousand requests of public traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import configs, step_times, traces
from hypothesis import strategies as st

from pagesim.sim.formats import read_trace
from pagesim.sim.reading import ReadOptions
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.scenario import read_scenario
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.trace import HashIds, Trace
from pagesim.validate.replay.experiment import Experiment

ROOT = Path(__file__).parents[2]
OURS = ROOT / "tests" / "data" / "golden"
SHARED = ROOT.parent / "shared"
SLICES = ("azure_code", "azure_conv", "etalon_sharegpt", "mooncake_conv", "mooncake_synth")
PUBLIC = {
    "azure code": "azure-llm-2023/AzureLLMInferenceTrace_code.csv",
    "azure conv": "azure-llm-2023/AzureLLMInferenceTrace_conv.csv",
    "mooncake": "mooncake-fast25/conversation_trace.jsonl",
    "inference-perf": "inference-perf/trace.csv",
}
RECORDINGS = [*sorted(OURS.glob("*.json.gz")), *(SHARED / "golden" / "traces" / f"{name}.json.gz" for name in SLICES)]
SAME = {"victim": "last", "evict": "lru", "preempt": "recompute", "prefix_match_unit": 0}  # what the engine has
RUNS = ("reservation", "exact-fit", "exact-fit:best", "exact-fit:next", "exact-fit:worst")


def recorded(path: Path) -> Experiment:
    if not path.exists():
        pytest.skip(f"the recording {path.name} is not beside this checkout")
    found = read_scenario(path)
    return Experiment(found.trace, found.config, ConstantStep(1.0), found.ids)


def golden(name: str) -> Experiment:
    return recorded(OURS / f"{name}.json.gz")


def public(name: str, prompt_tokens: int, output_tokens: int) -> Trace:
    """The first 1,000 requests at their own times, lengths cut."""
    path = SHARED / "traces" / PUBLIC[name]
    if not path.exists():
        pytest.skip(f"the trace {path.name} is not beside this checkout")
    trace, _ = read_trace(path, ReadOptions(limit=1000))
    prompt = np.minimum(trace.prompt_tokens, prompt_tokens)
    ids, each = trace.hash_ids, trace.hash_block_tokens
    if ids is not None and each is not None:
        ids = HashIds.of([ids[row][: -(-int(size) // each)].tolist() for row, size in enumerate(prompt)])
    outputs = np.minimum(trace.output_tokens, output_tokens)
    return Trace(trace.arrival_s, prompt, outputs, hash_ids=ids, hash_block_tokens=each)


@st.composite
def experiments(draw: Any) -> Experiment:
    """Any trace under any rules that both sides have."""
    trace: Trace = draw(traces())
    kind = draw(st.sampled_from(("paged", "paged", "priority", "contiguous", "forks")))
    fixed: dict[str, Any] = SAME | {"fork": "none", "policy": "priority" if kind == "priority" else "fcfs"}
    each = st.lists(st.integers(1, 5), min_size=len(trace), max_size=len(trace))
    if kind == "forks":
        trace = replace(trace, n=np.array(draw(each)))
        fixed |= {"fork": "cow", "prefix_caching": False}
    if kind == "priority":
        trace = replace(trace, priority=np.array(draw(each)))
    if kind == "contiguous":
        fixed |= {"prefix_caching": False, "watermark": 0.0}
    config: ServingConfig = draw(configs(trace, **fixed))
    if kind == "contiguous":
        longest = max(2, min(config.max_model_len, config.usable_tokens))
        enough = -(-longest // config.block_size) + 1
        config = replace(
            config,
            max_model_len=longest,
            num_blocks=max(config.num_blocks, enough),
            allocator=draw(st.sampled_from(RUNS)),
        )
    budget = config.token_budget
    if not config.chunked_prefill:
        budget = max(budget, config.max_model_len)
    if config.fork == "cow":
        budget = max(budget, config.max_num_seqs)
    return Experiment(trace, replace(config, token_budget=budget), draw(step_times))
