"""Eight samples of one prompt: eight independent requests, and what a fork would save."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagesim.sim.experiments.experiment import Experiment, Logs, Run, makespan_s
from pagesim.sim.experiments.row import Row, Standing, held_out, ours
from pagesim.sim.experiments.starved import alike
from pagesim.sim.experiments.unknown import length_that_meets
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import StepTime, pairs
from pagesim.sim.trace import Trace

SAMPLES, PROMPT = 8, 1447
ANSWERS = {"short": 4, "long": 200}
PUBLISHED_S = {"short": (1.54, 1.56), "long": (4.02, 4.06)}  # as one request, as eight


def split(trace: Trace) -> Trace:
    """What the engine makes of requests for several samples: as many independent requests for one."""
    if trace.n is None:
        return trace
    return replace(trace.take(np.repeat(np.arange(len(trace)), trace.n)), n=None)


def _run(trace: Trace, step_time: StepTime) -> Run:
    return Run(split(trace), ServingConfig(token_budget=8192), step_time)


def _eight(answer: int, step_time: StepTime) -> Run:
    return _run(alike(SAMPLES, PROMPT, answer), step_time)


def _one(answer: int, step_time: StepTime) -> Run:
    return _run(replace(alike(1, PROMPT, answer), n=np.array([SAMPLES])), step_time)


def n8(step_time: StepTime) -> Experiment:
    """Short answers and long ones, each as one request and as eight."""
    runs = {f"one request, {name} answers": _one(answer, step_time) for name, answer in ANSWERS.items()}
    runs |= {f"eight requests, {name} answers": _eight(answer, step_time) for name, answer in ANSWERS.items()}
    assumed = (
        f"Short answers have {ANSWERS['short']} tokens, long ones {ANSWERS['long']}; token budget 8,192; the cache off."
    )
    shows = "An engine that splits a request for eight samples into eight requests saves nothing; a fork would."
    return Experiment(
        "n8", shows, assumed, runs, lambda logs: [row for name in ANSWERS for row in _rows(name, logs, step_time)]
    )


def fork_s(answer: int, step_time: StepTime) -> float:
    """The makespan of a fork: one prefill samples the first token of each, and then all decode, in seconds.

    A what-if, from the step-time model alone: that each sample copies the last, partly filled block costs nothing.
    """
    prefill = step_time.seconds(PROMPT, pairs(0, PROMPT), 0, 1)
    if answer == 1:
        return prefill
    decodes, first = answer - 1, step_time.seconds(SAMPLES, 0, SAMPLES * (PROMPT + 1), SAMPLES)
    return prefill + decodes * first + step_time.growth_s(SAMPLES) * (decodes * (decodes - 1) // 2)


def _rows(name: str, logs: Logs, step_time: StepTime) -> list[Row]:
    figure, answer, (one_published_s, eight_published_s) = f"n8_{name}", ANSWERS[name], PUBLISHED_S[name]
    one_s, eight_s = (makespan_s(logs[f"{kind}, {name} answers"]) for kind in ("one request", "eight requests"))
    meets = length_that_meets(range(1, 600), lambda n: makespan_s(_eight(n, step_time).serve()) >= eight_published_s)
    forked_s = fork_s(answer, step_time)
    return [
        Row(figure, f"eight requests, {name} answers", (eight_published_s,), eight_s, "s", Standing.UNKNOWN_LENGTH,
            f"Answers of {answer} tokens are assumed; {meets}."),
        Row(figure, f"one request for eight samples, {name} answers", (one_published_s,), one_s, "s",
            Standing.UNKNOWN_LENGTH, "Split into eight requests before it is scheduled."),
        held_out(figure, f"one request over eight, {name} answers", (one_published_s / eight_published_s,),
                 one_s / eight_s, "ratio", "Equal here whatever the lengths: after the split it is the same trace."),
        ours(figure, f"what-if: forked after one prefill, {name} answers", forked_s, "s",
             f"Seven prefills of {PROMPT:,} tokens fewer: {eight_s - forked_s:.2f} s less, which would not hide."),
    ]  # fmt: skip
