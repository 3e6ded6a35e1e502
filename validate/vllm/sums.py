"""What a run of vLLM's scheduler adds up to. What vLLM counts itself is taken from its own statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagesim.engine.step import Step

BY_VLLM = {  # the recordings' names, and those of vLLM's PrefixCacheStats
    "prefix_queries_first": "queries", "prefix_hits_first": "hits", "prefix_queries_return": "preempted_queries",
    "prefix_hits_return": "preempted_hits",
}  # fmt: skip
COUNTED = (
    "steps", "preemptions", "scheduled_tokens", "sampled_tokens", "recomputed_tokens", "peak_blocks_used",
    "peak_running",
)  # fmt: skip


class Sums:
    """By the names of the recordings' `totals`, as their format defines them."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys((*COUNTED, *BY_VLLM), 0)
        self._computed: dict[str, int] = {}  # the most tokens of each that ever were

    @property
    def steps(self) -> int:
        """So far."""
        return self._sums["steps"]

    def add_step(self, step: Step) -> None:
        """A step that was scheduled."""
        sums = self._sums
        sums["steps"] += 1
        sums["preemptions"] += len(step.preempted)
        sums["scheduled_tokens"] += step.scheduled_tokens
        sums["peak_blocks_used"] = max(sums["peak_blocks_used"], step.blocks_used)
        sums["peak_running"] = max(sums["peak_running"], step.running)
        for chunk in step.chunks:
            before = self._computed.get(chunk.sequence.id, 0)
            sums["recomputed_tokens"] += max(0, min(chunk.stop, before) - chunk.start)
            self._computed[chunk.sequence.id] = max(before, chunk.stop)

    def add_outputs(self, sampled: Mapping[str, int], told: Mapping[int, Any]) -> None:
        """The tokens of a step, and what vLLM tells its clients of it, its statistics of that step among it."""
        self._sums["sampled_tokens"] += len(sampled)
        for outputs in told.values():
            if (stats := outputs.scheduler_stats) is not None:
                for name, theirs in BY_VLLM.items():
                    self._sums[name] += getattr(stats.prefix_cache_stats, theirs)

    def as_dict(self) -> dict[str, int]:
        """Name to figure."""
        return dict(self._sums)
