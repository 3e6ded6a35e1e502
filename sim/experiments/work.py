"""What a measured time is made of: steps, tokens, query-key pairs and sequences.

A step's time is linear in its work. As long as the clock does not decide which steps there are, so is the time of any
run of them, a whole simulated run as well as one request; then a measured time is one linear equation in the
coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagesim.sim.experiments.experiment import Run
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.steptime import LinearStep

Measure = Callable[[ServingLog], float]

# Units of time that are small enough for a run to be over before the next request comes, seconds.
BASE_S, TOKEN_S, PAIR_S, SEQUENCE_S = 1e-3, 1e-6, 1e-9, 1e-6


@dataclass(frozen=True, slots=True)
class Work:
    """Sums over the steps. `pairs`: pairs of prefill, and twice the contexts of decodes, as in LinearStep; pairs of
    prefill alone where `contexts`, those of decodes, are counted by themselves. `prefills`: steps with a prefill.
    """

    steps: int
    tokens: int
    pairs: int
    sequences: int
    contexts: int | None = None
    prefills: int | None = None

    def seconds(self, step_time: LinearStep) -> float:
        """How long it takes where a context costs twice a pair, and every token the same."""
        assert self.contexts is None and self.prefills is None, self
        assert step_time.per_context_s is None and step_time.prefill_s is None and step_time.curve is None, step_time
        return (
            self.steps * step_time.base_s
            + self.tokens * step_time.per_token_s
            + self.pairs * step_time.per_pair_s
            + self.sequences * step_time.per_sequence_s
        )


def work_of(run: Run, measure: Measure) -> Work:
    """The work in the time that `measure` reads from a log of `run`.

    Found by serving it on machines that charge for one kind of work alone, beside a base that no step can be without.
    """

    def measured(token_s: float = 0.0, pair_s: float = 0.0, sequence_s: float = 0.0) -> float:
        return measure(run.with_step_time(LinearStep(BASE_S, token_s, pair_s, sequence_s)).serve())

    base = measured()
    return Work(
        steps=round(base / BASE_S),
        tokens=round((measured(token_s=TOKEN_S) - base) / TOKEN_S),
        pairs=round((measured(pair_s=PAIR_S) - base) / PAIR_S),
        sequences=round((measured(sequence_s=SEQUENCE_S) - base) / SEQUENCE_S),
    )
