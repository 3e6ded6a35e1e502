"""The requests of a trace as the scheduler goes through them: plain lists, because they are read one number at a time."""

from __future__ import annotations

from collections.abc import Sequence

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.trace import Trace


class Requests:
    """By row of the trace: what is fixed, and what the scheduler must remember of each.

    `known`: tokens to compute before the next output can be sampled: the prompt, and after a preemption the outputs so
    far. `last_pass`: tokens computed when the last output is sampled; that one never gets a slot. `seen`: the most
    tokens that were ever computed, kept only for those that were preempted.
    """

    def __init__(self, trace: Trace, config: ServingConfig, priority: Sequence[int] | None) -> None:
        if priority is not None and len(priority) != len(trace):
            raise UsageError(f"{len(priority)} priorities for {len(trace)} requests; accepted: one for each")
        self.arrival_s: list[float] = trace.arrival_s.tolist()
        self.prompt: list[int] = trace.prompt_tokens.tolist()
        self.output: list[int] = trace.output_tokens.tolist()
        self.known = list(self.prompt)
        self.last_pass = [prompt + output - 1 for prompt, output in zip(self.prompt, self.output, strict=True)]
        self.seen: dict[int, int] = {}
        self.priority = None if priority is None else list(priority)
        lengths = zip(self.prompt, self.output, strict=True)
        self.servable = [row for row, (prompt, output) in enumerate(lengths) if config.can_serve(prompt, output)]

    def __len__(self) -> int:
        return len(self.prompt)
