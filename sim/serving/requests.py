"""The requests of a trace as the scheduler goes through them: plain lists, which are quick to read one number of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.trace import Ints, Trace


class Requests:
    """By row of the trace: what is fixed, and what the scheduler must remember of each.

    `known`: tokens to compute before the next output can be sampled: the prompt, and after a preemption the outputs so
    far. `last_pass`: tokens computed when the last output is sampled; that one never gets a slot. `seen`: the most
    tokens that were ever computed, kept only for those that were preempted. `final`: prompt and answer together,
    as the baselines of the PagedAttention paper count what they make room for.
    """

    def __init__(self, trace: Trace, config: ServingConfig, priority: Sequence[int] | None, longest: int) -> None:
        if priority is not None and len(priority) != len(trace):
            raise UsageError(f"{len(priority)} priorities for {len(trace)} requests; accepted: one for each")
        self.arrival_s: list[float] = trace.arrival_s.tolist()
        self.prompt: list[int] = trace.prompt_tokens.tolist()
        self.known = list(self.prompt)
        self.last_pass: list[int] = (trace.total_tokens - 1).tolist()
        self.seen: dict[int, int] = {}
        self.priority = None if priority is None else list(priority)
        self.final: list[int] = trace.total_tokens.tolist()
        servable = config.can_serve(trace.prompt_tokens, trace.output_tokens) & (trace.total_tokens <= longest)
        self.servable: list[int] = np.flatnonzero(servable).tolist()

    def refuse_groups(self, n: Ints, most: int) -> None:
        """Groups of more than `most` samples can never be let in; `n`, int64 [groups], adds up to the requests."""
        refused = np.repeat(n > most, n).tolist()
        self.servable = [row for row in self.servable if not refused[row]]

    def __len__(self) -> int:
        return len(self.prompt)
