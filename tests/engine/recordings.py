"""The recordings of vLLM's scheduler, as options and requests with literal token ids (`golden/FORMAT.md`)."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from without_model import AuditedScheduler, new_prompt, scheduler, sequence

from pagesim.engine.sequence import Sequence

OURS = Path(__file__).parents[1] / "data" / "golden"
SHARED = Path(__file__).parents[3] / "shared" / "golden"
Recording = dict[str, Any]


TRACES = ("azure_code", "azure_conv", "etalon_sharegpt", "mooncake_conv", "mooncake_synth")


def recordings() -> list[Path]:
    """The synthetic ones, which are ours too, and the slices of public traces, which may lie beside the checkout."""
    return sorted(OURS.glob("*.json.gz")) + [SHARED / "traces" / f"{name}.json.gz" for name in TRACES]


def load(path: Path) -> Recording:
    if not path.exists():
        pytest.skip(f"the recording {path.name} is not beside this checkout")
    with gzip.open(path, "rt") as file:
        recording: Recording = json.load(file)
    return recording


def scheduler_of(recording: Recording) -> AuditedScheduler:
    config = recording["config"]
    return scheduler(
        num_blocks=config["num_blocks"],
        max_model_len=config["max_model_len"],
        block_size=config["block_size"],
        token_budget=config["max_num_batched_tokens"],
        max_num_seqs=config["max_num_seqs"],
        prefix_caching=config["enable_prefix_caching"],
        long_prefill_threshold=config["long_prefill_token_threshold"] or None,
        reserve_full_isl=config["reserve_full_isl"],
        watermark=config["watermark"],
    )


def arrivals_of(recording: Recording) -> dict[int, list[Sequence]]:
    arrivals: dict[int, list[Sequence]] = defaultdict(list)
    for request in recording["requests"]:
        prompt = prompt_of(request, recording.get("hash_block_tokens"))
        new = sequence(request["id"], prompt, request["output_tokens"], salt=request.get("cache_salt"))
        arrivals[request["arrival"]].append(new)
    return arrivals


def prompt_of(request: dict[str, Any], hash_block_tokens: int | None) -> list[int]:
    """Token j is a function of (hash id, offset in its piece) alone; without ids, of nothing that occurs elsewhere."""
    num_tokens = request["prompt_tokens"]
    if "hash_ids" not in request:
        return new_prompt(num_tokens)
    assert hash_block_tokens
    ids = request["hash_ids"]
    return [ids[j // hash_block_tokens] * hash_block_tokens + j % hash_block_tokens for j in range(num_tokens)]
