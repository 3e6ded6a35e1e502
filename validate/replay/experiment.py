"""What is replayed: a trace, and the rules and step times that both sides are told."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace
from pagesim.validate.replay.rules import check_comparable


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """A trace under rules that the simulator and the engine both have.

    `names`: what the requests are called, a sample each; default their rows. `samples`: the trace with a row for each
    sample of each prompt. Raises UsageError on a rule that the engine does not have, or that the two define
    differently, with the reason.
    """

    trace: Trace
    config: ServingConfig
    step_time: StepTime
    names: tuple[str, ...] = ()
    samples: Trace = field(init=False)

    def __post_init__(self) -> None:
        check_comparable(self.config)
        object.__setattr__(self, "samples", independent_samples(self.trace))
        object.__setattr__(self, "names", self.names or tuple(map(str, range(len(self.samples)))))

    @property
    def offered(self) -> int:
        """Samples that both sides are given: those of `max_model_len` or less."""
        return int((self.samples.total_tokens <= self.config.max_model_len).sum())

    def check_offered(self) -> None:
        """Raise UsageError if nobody is given to either side: two empty logs are equal, and say nothing."""
        if not self.offered:
            longest = self.config.max_model_len
            raise UsageError(
                f"none of {len(self.samples):,} requests has --max-model-len {longest:,} tokens or less, prompt and "
                "output; accepted: shorter ones, or a larger --max-model-len"
            )

    @property
    def groups(self) -> list[range]:
        """Rows of `samples` that the engine is given as one request: the samples of a prompt, if they fork."""
        if self.config.fork == "none" or self.trace.n is None:
            return [range(row, row + 1) for row in range(len(self.samples))]
        ends = np.cumsum(self.trace.n).tolist()
        return [range(end - count, end) for end, count in zip(ends, self.trace.n.tolist(), strict=True)]

    @property
    def unit(self) -> str:
        """What `ReplayStep.blocks_used` counts."""
        return "blocks" if self.config.allocator == PAGED else "slots"
