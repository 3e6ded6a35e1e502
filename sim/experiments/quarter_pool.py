"""A pool that nobody notices is small: two dozen long requests in it and in a quarter of it."""

from __future__ import annotations

from pagesim.sim.experiments.experiment import Experiment, Logs, Run, makespan_s, tokens_per_s
from pagesim.sim.experiments.row import Row, Standing, exact, held_out
from pagesim.sim.experiments.starved import ANSWER, BLOCK, PROMPT, alike
from pagesim.sim.experiments.unknown import length_that_meets
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import StepTime

LONG_REQUESTS = 24
WHOLE_POOL, QUARTER = 930_000 // BLOCK, 230_000 // BLOCK
WHOLE_TOKENS_PER_S, QUARTER_TOKENS_PER_S = 2058.0, 2059.0
LONG_ANSWERS = range(64, 2048 - PROMPT)


def quarter_pool(step_time: StepTime) -> Experiment:
    """A pool that nobody notices is small."""
    runs = {"930,000": _long_run(ANSWER, step_time), "230,000": _long_run(ANSWER, step_time, QUARTER)}
    assumed = "24 requests of the same lengths as in `starved`; the note says only that they are long."
    shows = "A quarter of the pool does as well, as long as the traffic does not want more of it."
    return Experiment("quarter-pool", shows, assumed, runs, lambda logs: _quarter_pool(logs, step_time))


def _long_run(answer: int, step_time: StepTime, num_blocks: int = WHOLE_POOL) -> Run:
    config = ServingConfig(num_blocks=num_blocks, token_budget=8192)
    return Run(alike(LONG_REQUESTS, PROMPT, answer), config, step_time)


def _quarter_pool(logs: Logs, step_time: StepTime) -> list[Row]:
    large, small = logs["930,000"], logs["230,000"]
    meets = length_that_meets(
        LONG_ANSWERS, lambda n: tokens_per_s(_long_run(n, step_time).serve()) <= WHOLE_TOKENS_PER_S
    )
    return [
        exact("quarter_pool", "preemptions, pool 930,000", 0, len(large.preemptions), "", "24 requests fit."),
        exact("quarter_pool", "preemptions, pool 230,000", 0, len(small.preemptions), "", "24 requests fit."),
        held_out("quarter_pool", "makespan of the small pool over that of the large",
                 (WHOLE_TOKENS_PER_S / QUARTER_TOKENS_PER_S,), makespan_s(small) / makespan_s(large), "ratio",
                 "Equal here to the last bit, whatever the lengths."),
        Row("quarter_pool", "throughput, pool 930,000", (WHOLE_TOKENS_PER_S,), tokens_per_s(large), "tokens/s",
            Standing.UNKNOWN_LENGTH, f"Answers of {ANSWER:,} tokens are assumed; {meets}."),
        Row("quarter_pool", "throughput, pool 230,000", (QUARTER_TOKENS_PER_S,), tokens_per_s(small), "tokens/s",
            Standing.UNKNOWN_LENGTH, "The same assumption."),
    ]  # fmt: skip
