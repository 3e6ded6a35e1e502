"""Thrashing, in two ways of our own: admission without a look at the whole prompt, and a pool for two sequences."""

from __future__ import annotations

import numpy as np

from pagesim.sim.experiments.experiment import Experiment, Logs, Run, tokens_per_s
from pagesim.sim.experiments.row import Row, exact, ours
from pagesim.sim.experiments.starved import alike, starved_run
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.steptime import StepTime

REQUESTS, PROMPT, ANSWER = 16, 1900, 100
CHUNK = 256
POOL = 129  # blocks, the null block among them: 2,048 tokens


def thrash(step_time: StepTime) -> Experiment:
    """Near-pool prompts with and without `reserve_full_isl`; the requests of `starved` in a pool for two of them."""
    config = ServingConfig(num_blocks=POOL, long_prefill_threshold=CHUNK)
    whole = Run(alike(REQUESTS, PROMPT, ANSWER), config, step_time)
    runs = {
        "whole prompt must fit": whole,
        "first chunk must fit": whole.with_config(reserve_full_isl=False),
        "pool for two": starved_run(step_time).with_config(num_blocks=POOL),
    }
    assumed = (
        f"{REQUESTS} prompts of {PROMPT:,} tokens in chunks of {CHUNK}, answers of {ANSWER}, a pool of 2,048 tokens; "
        "and the 200 requests of `starved` in that pool."
    )
    shows = (
        "Half-admitted prompts take each other's blocks away, and so do sequences in a pool for two; still all end, "
        "because the head of the running list always goes on."
    )
    return Experiment("thrash", shows, assumed, runs, _rows)


def _rows(logs: Logs) -> list[Row]:
    whole, first, two = logs["whole prompt must fit"], logs["first chunk must fit"], logs["pool for two"]
    return [
        *(exact("thrash", f"requests that finish, {name}", len(log.finish_s), _finished(log), "",
                "It slows, it never stops.")
          for name, log in logs.items()),
        ours("thrash", "preemptions, whole prompt must fit", len(whole.preemptions), "",
             "Admission waits; one prompt at a time."),
        ours("thrash", "preemptions, first chunk must fit", len(first.preemptions), "",
             "Prompts start side by side, and the later ones are put back when the first needs their blocks."),
        ours("thrash", "recomputed, first chunk must fit", first.recomputed_tokens, "tokens",
             f"Beside {int(first.prompt_tokens.sum()):,} tokens of prompts."),
        ours("thrash", "steps, whole prompt over first chunk", whole.num_steps / first.num_steps, "ratio",
             "What is recomputed rides along in steps that the head of the list needs anyway."),
        ours("thrash", "throughput, whole prompt must fit", tokens_per_s(whole), "tokens/s", "No work is done twice."),
        ours("thrash", "throughput, first chunk must fit", tokens_per_s(first), "tokens/s",
             "The same answers, in dearer steps."),
        ours("thrash", "preemptions, pool for two", len(two.preemptions), "",
             "Each request is put back about nine times."),
        ours("thrash", "recomputed, pool for two", two.recomputed_tokens, "tokens",
             f"More than the {int(two.output_tokens.sum()):,} tokens that are answered."),
        ours("thrash", "steps, pool for two", two.num_steps, "", "Few sequences share a step; `starved` takes 1,908."),
        ours("thrash", "throughput, pool for two", tokens_per_s(two), "tokens/s",
             "Lost less to recomputation than to the base time of so many steps."),
    ]  # fmt: skip


def _finished(log: ServingLog) -> int:
    return int(np.isfinite(log.finish_s).sum())
