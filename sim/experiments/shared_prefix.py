"""Sixteen requests on one prefix, with the cache on, off, and on with the prefix in it already."""

from __future__ import annotations

import numpy as np

from pagesim.sim.experiments.experiment import Experiment, Logs, Run, makespan_s
from pagesim.sim.experiments.row import Row, Standing, exact, held_out
from pagesim.sim.experiments.unknown import length_that_meets
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import HashIds, Trace

REQUESTS, PREFIX = 16, 2407
SHARED_BLOCKS = 150
ON_S, OFF_S = 0.74, 7.93
ANSWER = 16
BLOCK = 16
WARMED_UP_S = 10.0
CONFIG = ServingConfig(block_size=BLOCK, token_budget=8192, max_model_len=8192, prefix_caching=True)


def shared_run(arrivals: list[float], answer: int, step_time: StepTime) -> Run:
    """Requests whose prompt is the prefix and nothing more."""
    size = len(arrivals)
    prompts, answers = np.full(size, PREFIX), np.full(size, answer)
    ids = HashIds.of([[0]] * size)
    return Run(Trace(np.array(arrivals), prompts, answers, hash_ids=ids, hash_block_tokens=PREFIX), CONFIG, step_time)


def shared_prefix(step_time: StepTime) -> Experiment:
    """The cache on, off, and on with the prefix already in it."""
    together = [0.0] * REQUESTS
    on = shared_run(together, ANSWER, step_time)
    runs = {
        "cache on": on,
        "cache off": on.with_config(prefix_caching=False),
        "cache warm": shared_run([0.0, *(WARMED_UP_S for _ in together)], ANSWER, step_time),
        "alone": shared_run([0.0], 1, step_time),
    }
    assumed = (
        f"The prompt is the prefix of {PREFIX:,} tokens and nothing more (the note: seven-token tails); answers of "
        f"{ANSWER} tokens; all there at once; token budget 8,192."
    )
    shows = "What prompts that begin alike save when the cache looks for it."
    return Experiment("shared-prefix", shows, assumed, runs, lambda logs: _shared_prefix(logs, step_time))


def _shared_prefix(logs: Logs, step_time: StepTime) -> list[Row]:
    on, off, warm, alone = (logs[name] for name in ("cache on", "cache off", "cache warm", "alone"))
    hits, found = hit_tokens(on), SHARED_BLOCKS * BLOCK
    on_s, off_s, warm_s = makespan_s(on), makespan_s(off), float(warm.finish_s.max() - WARMED_UP_S)
    meets = length_that_meets(
        range(1, 512), lambda n: makespan_s(shared_run([0.0] * REQUESTS, n, step_time).serve()) >= ON_S
    )
    return [
        exact("prompt_blocks", "blocks of one prompt", 151, alone.totals()["peak_blocks_used"], "",
              "2,407 tokens are 150 full blocks of 16 and a tail of seven tokens."),
        exact("prompt_blocks", "blocks that can be shared", SHARED_BLOCKS, hits[-1] // BLOCK, "",
              "The full ones."),
        exact("shared_prefix", "requests that find it", REQUESTS - 1, sum(hit == found for hit in hits), "",
              "The sixteenth computes it; the others find what is only being computed in the same step."),
        exact("shared_prefix", "tokens found by each", found, min(hits[1:]), "tokens", "All of its full blocks."),
        held_out("shared_prefix", "cache off less on, 15 find it", (OFF_S - ON_S,), off_s - on_s, "s",
                 "Fifteen prefills; the length of the answers cancels."),
        held_out("shared_prefix", "cache off less on, all 16 find it", (OFF_S - ON_S,), off_s - warm_s, "s",
                 "If the prefix was in the pool from a request before the timed ones, as the note has it elsewhere."),
        Row("shared_prefix", "cache on", (ON_S,), on_s, "s", Standing.UNKNOWN_LENGTH,
            f"Answers of {ANSWER} tokens are assumed; {meets}."),
        Row("shared_prefix", "cache off", (OFF_S,), off_s, "s", Standing.UNKNOWN_LENGTH, "The same assumption."),
    ]  # fmt: skip


def hit_tokens(log: ServingLog) -> list[int]:
    """Tokens found, by admission."""
    hits: list[int] = log.admissions["hit_tokens"].tolist()
    return hits
