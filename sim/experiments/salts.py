"""Tenants that ask the same prompt: only those with the same cache salt share it."""

from __future__ import annotations

from dataclasses import replace

from pagesim.sim.experiments.experiment import Experiment, Logs, Run
from pagesim.sim.experiments.row import Row, exact
from pagesim.sim.experiments.shared_prefix import ANSWER, CONFIG, PREFIX, SHARED_BLOCKS, hit_tokens, shared_run
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Labels

SALTS = ["a", "a", "b", None, None, "b"]
SALT_EVERY_S = 10.0


def salts(step_time: StepTime) -> Experiment:
    """One prompt, asked by tenants one after the other."""
    shared = shared_run([SALT_EVERY_S * k for k in range(len(SALTS))], ANSWER, step_time)
    runs = {"salts": Run(replace(shared.trace, cache_salt=Labels.of(SALTS)), CONFIG, step_time)}
    assumed = f"One prompt of {PREFIX:,} tokens, asked with the salts a, a, b, none, none, b, one after the other."
    return Experiment(
        "salts", "Prompts are shared by those with the same salt, and by no others.", assumed, runs, _salts
    )


def _salts(logs: Logs) -> list[Row]:
    hits, full = hit_tokens(logs["salts"]), float(SHARED_BLOCKS * CONFIG.block_size)
    first, again = [hits[0], hits[2], hits[3]], [hits[1], hits[4], hits[5]]
    return [
        exact("salts", "most tokens found by the first with a salt", 0, max(first), "tokens",
              "Different salts never match."),
        exact("salts", "least tokens found by the next with it", full, min(again), "tokens",
              "All full blocks; no salt is a salt of its own."),
    ]  # fmt: skip
