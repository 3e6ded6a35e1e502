"""What load means where requests wait: how many arrive, of those that a full batch would serve in the same time."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.sim.length_pairs import Moments
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import StepTime


@dataclass(frozen=True, slots=True)
class FullBatch:
    """A batch that is always as full as it can be: `sequences` in it, and a step of it takes `step_s`.

    `outputs_each`: steps that a request stays, in the mean.
    """

    sequences: float
    step_s: float
    outputs_each: float

    @property
    def rate_per_s(self) -> float:
        """Requests that such a batch finishes in a second."""
        return self.sequences / self.mean_residence_s

    @property
    def mean_residence_s(self) -> float:
        """How long a request stays in it."""
        return self.outputs_each * self.step_s


def full_batch(config: ServingConfig, step_time: StepTime, m: Moments, slots_each: float | None = None) -> FullBatch:
    """What fits: into the pool, into `max_num_seqs` and, with the prompts of those that come, into the token budget.

    `slots_each`: what a sequence holds; None: what it fills, in the mean over its steps, nothing wasted:
    E[P O + O^2 / 2] / E[O] for prompts P and outputs O. Prefixes in common are not counted.
    """
    filled = (m.po + m.oo / 2) / m.o
    held = filled if slots_each is None else slots_each
    by_budget = config.token_budget / (1 + m.p / m.o)
    sequences = max(1.0, min(config.usable_tokens // held, config.max_num_seqs, by_budget))
    come = sequences / m.o  # new requests a step
    context = round(sequences * filled)
    if come < 1:  # most steps let nobody in
        quiet_s = step_time.seconds(round(sequences), 0, context, round(sequences))
        one_comes_s = step_time.seconds(round(sequences + m.p), round((m.pp + m.p) / 2), context, round(sequences + 1))
        step_s = (1 - come) * quiet_s + come * one_comes_s
    else:
        tokens, prefill_pairs = round(sequences + come * m.p), round(come * (m.pp + m.p) / 2)
        step_s = step_time.seconds(tokens, prefill_pairs, context, round(sequences + come))
    return FullBatch(sequences, step_s, m.o)
