"""Asking about a text twice, at several lengths: the first time costs a prefill, the second finds it in the cache."""

from __future__ import annotations

import numpy as np

from pagesim.sim.experiments.experiment import Experiment, Logs, Run
from pagesim.sim.experiments.row import Row, Standing, exact, held_out
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import HashIds, Trace

COLD_S = {128: 0.039, 1024: 0.190, 2048: 0.375, 4096: 1.251}
WARM_S = {128: 0.032, 1024: 0.035, 2048: 0.040, 4096: 0.062}
FITTED = {("cold", 2048), ("cold", 4096), ("warm", 128)}
QUESTION, ANSWER = 8, 4
AGAIN_S = 10.0  # when the second question comes
ASSUMED = (
    f"A question of {QUESTION} tokens behind the text, another one the second time, and answers of {ANSWER} tokens. "
    "Token budget 8,192, so that each prefill is one step."
)


def cold_warm_run(length: int, step_time: StepTime) -> Run:
    """A text of `length` tokens with a question, then with another; request 0 is cold, request 1 warm."""
    questions = HashIds.of([[0, 1], [0, 2]])
    prompts, answers = np.full(2, length + QUESTION), np.full(2, ANSWER)
    trace = Trace(np.array([0.0, AGAIN_S]), prompts, answers, hash_ids=questions, hash_block_tokens=length)
    return Run(trace, ServingConfig(token_budget=8192, max_model_len=8192, prefix_caching=True), step_time)


def cold_s(log: ServingLog) -> float:
    """From question to the end of the answer, the first time."""
    return float(log.finish_s[0] - log.arrival_s[0])


def warm_s(log: ServingLog) -> float:
    """From question to the end of the answer, the second time."""
    return float(log.finish_s[1] - log.arrival_s[1])


def cold_warm(step_time: StepTime) -> Experiment:
    """One run for each length."""
    runs = {f"{length:,} tokens": cold_warm_run(length, step_time) for length in COLD_S}
    shows = "The first question about a text costs a prefill of it, the second next to nothing."
    return Experiment("cold-warm", shows, ASSUMED, runs, _rows)


def _rows(logs: Logs) -> list[Row]:
    rows = []
    for (name, log), length in zip(logs.items(), COLD_S, strict=True):
        rows.append(_time("cold", name, length, COLD_S[length], cold_s(log)))
        rows.append(_time("warm", name, length, WARM_S[length], warm_s(log)))
        hit = int(log.admissions["hit_tokens"][1])
        rows.append(exact("cold_warm", f"tokens found, {name}", length, hit, "tokens", "Every length is whole blocks."))
    return rows


REMARKS = {
    ("cold", 1024): "The note's cold times grow nearly in line with length up to 2,048 tokens and by 3.3 for the "
    "next doubling; a base, a linear and a square term cannot.",
    ("warm", 2048): "The warm times of the note grow faster with length than those here.",
    ("warm", 4096): "The warm times of the note grow faster with length than those here: eight tokens behind "
    "a long text cost more than their pairs do.",
}


def _time(kind: str, name: str, length: int, published_s: float, ours_s: float) -> Row:
    what, remark = f"{kind}, {name}", REMARKS.get((kind, length))
    if (kind, length) in FITTED:
        return Row("cold_warm", what, (published_s,), ours_s, "s", Standing.FITTED, "One equation of the fit.")
    return held_out(
        "cold_warm", what, (published_s,), ours_s, "s", remark or "On the assumed lengths of question and answer."
    )
