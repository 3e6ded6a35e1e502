"""What a replay against a server came to: answers counted here, and what the server's counters moved by."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.distribution import Distribution
from pagesim.sim.trace import Trace
from pagesim.validate.server.errors import GoneError, NonsenseError, RefusedError
from pagesim.validate.server.http import Server
from pagesim.validate.server.metrics import Metrics, read_metrics
from pagesim.validate.server.realtime import Outcome, RealTime

SETTLE_S = 5.0  # for a server's counters, after its last token
EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """`problems`: what is wrong with the answer of each row that has anything, a line each. `moved`: by name, what each
    counter grew by; only of those that were there before and after. `tokens`: of all answers.
    """

    problems: dict[int, str]
    moved: dict[str, float]
    tokens: int
    ttft: Distribution
    tpot: Distribution
    duration_s: float
    late_s: float

    @classmethod
    def of(cls, run: RealTime, trace: Trace, before: Metrics, after: Metrics | None) -> Measured:
        """`after`: None if the server could not be asked any more."""
        problems = {each.row: line for each in run.outcomes if (line := _problem(each, trace)) is not None}
        since = [(each, run.began_s + each.due_s) for each in run.outcomes]
        ttft = [each.answer.first_s - due_s for each, due_s in since if each.answer.first_s is not None]
        tpot = [value for each in run.outcomes if (value := _tpot_s(each)) is not None]
        lasts = [each.answer.last_s for each in run.outcomes if each.answer.last_s is not None]
        moved = (
            {} if after is None else {k: v - before.values[k] for k, v in after.values.items() if k in before.values}
        )
        several = int((trace.output_tokens > 1).sum())
        return cls(
            problems,
            moved,
            sum(each.answer.num_tokens or 0 for each in run.outcomes),
            Distribution.of(np.array(ttft), len(run.outcomes) - len(ttft)),
            Distribution.of(np.array(tpot), several - len(tpot)),
            max(lasts) - run.began_s if lasts else 0.0,
            max((each.sent_s - each.due_s for each in run.outcomes if each.sent_s is not None), default=0.0),
        )


def settled(server: Server, busy_s: float = SETTLE_S) -> Metrics:
    """The server's metrics once it is idle and they have stopped moving, or after `busy_s`.

    Raises GoneError, NonsenseError, RefusedError and UsageError as `read_metrics` does.
    """
    give_up_s = time.monotonic() + busy_s
    last = read_metrics(server)
    while time.monotonic() < give_up_s:
        time.sleep(EVERY_S)
        now = read_metrics(server)
        if now == last and not now.num_requests:
            return now
        last = now
    return last


def settled_or_why(server: Server) -> tuple[Metrics | None, str | None]:
    """The metrics, or in a line why there are none."""
    try:
        return settled(server), None
    except (GoneError, NonsenseError, RefusedError, UsageError) as error:
        return None, str(error)


def _problem(outcome: Outcome, trace: Trace) -> str | None:
    answer, wanted = outcome.answer, int(trace.output_tokens[outcome.row])
    prompt = int(trace.prompt_tokens[outcome.row])
    if outcome.sent_s is None:
        return "was not sent"
    if outcome.problem is not None:
        return f"{answer.num_tokens or 0} of {wanted} tokens, then {outcome.problem}"
    if answer.num_tokens != wanted:
        return f"{'no count' if answer.num_tokens is None else answer.num_tokens} of {wanted} tokens"
    if answer.completion_tokens not in (None, wanted):
        return f"{wanted} tokens came, and the server counts {answer.completion_tokens}"
    if answer.prompt_tokens not in (None, prompt):
        return f"its prompt has {prompt} tokens, and the server counts {answer.prompt_tokens}"
    return None


def _tpot_s(outcome: Outcome) -> float | None:
    answer = outcome.answer
    if answer.first_s is None or answer.last_s is None or (answer.num_tokens or 0) < 2:
        return None
    return (answer.last_s - answer.first_s) / ((answer.num_tokens or 0) - 1)
