"""Preemption: a pool of blocks that runs dry while answers grow, step by step, under vLLM's scheduler.

The answers are read off the log of the simulator's scheduler (`sim.serving`), which takes one second a step here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from pagesim.sim.quiz import operations as o
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Blank, Exercise, Question
from pagesim.sim.quiz.preemption_working import Request, Round, explained, rounds
from pagesim.sim.quiz.wording import counted
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.trace import Trace

FORM = re.compile(r"(?P<prompt>\d{1,6}):(?P<output>\d{1,6})(?:@(?P<step>\d{1,6}))?", re.ASCII)
ACCEPTED = (
    "P:N or P:N@STEP (a prompt of P tokens and an answer of N, both 1 or more, there from STEP on, 0 if not said)"
)
VICTIMS = {
    "last": "who was admitted last",
    "longest": "who has the most tokens, of equals the last admitted",
    "shortest": "who has the fewest tokens, of equals the last admitted",
    "fewest-blocks": "who holds the fewest blocks, of equals the last admitted",
}
TRIES = 100
MOST_TOKENS = 2**16  # of all answers together: each is a line of the working


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who is put back and when, what is computed twice, when does each request finish?"""

    NAME: ClassVar[str] = "preemption"
    SEQUENCE: ClassVar[str] = ACCEPTED
    DRAWN: ClassVar[frozenset[str]] = frozenset({"requests", "max_prompt", "max_output", "last_arrival"})

    num_blocks: int = parameters.number(8, 2, 2**12, "blocks of the pool, one of which is the null block")
    block_size: int = parameters.number(4, 1, 2**12, "tokens in a block")
    token_budget: int = parameters.number(16, 1, 2**16, "tokens computed in a step, at most")
    max_num_seqs: int = parameters.number(8, 1, 2**10, "sequences that run at once, at most")
    victim: str = parameters.choice("last", VICTIMS, "who is put back when blocks run out")
    requests: int = parameters.number(4, 1, 50, "requests in an exercise")
    max_prompt: int = parameters.number(10, 1, 2**12, "the longest prompt that is drawn, tokens")
    max_output: int = parameters.number(9, 1, 2**12, "the longest answer that is drawn, tokens")
    last_arrival: int = parameters.number(2, 0, 1000, "the last step in which a drawn request may arrive")

    def __post_init__(self) -> None:
        parameters.check(self)

    @property
    def config(self) -> ServingConfig:
        """The rules."""
        same = {each.name: getattr(self, each.name) for each in fields(ServingConfig) if hasattr(self, each.name)}
        return ServingConfig(**same, max_model_len=max(2, (self.num_blocks - 1) * self.block_size + 1))

    def exercise(self, draws: Draws, explicit: str | None) -> Exercise:
        """One exercise; of those drawn, the first in which someone is put back, if there is one in TRIES.

        Raises UsageError on requests that make no sense.
        """
        if explicit is not None:
            requests = self._parsed(explicit)
            log = self._served(requests)
        else:
            for _ in range(TRIES):
                requests = self._drawn(draws)
                log = self._served(requests)
                if len(log.preemptions):
                    break
        history = rounds(log, requests)
        questions = (self._who(log, history), self._when(log, requests, history), self._cost(log, history))
        sequence = ",".join(map(str, requests))
        return Exercise(sequence, self._given(requests), questions)

    def _given(self, requests: list[Request]) -> tuple[str, ...]:
        usable = self.num_blocks - 1
        lines = [
            f"A pool of {counted(self.num_blocks, 'block')} of {self.block_size} tokens: block 0 is the null block, "
            f"{usable} can be had. Rules of vLLM 0.29, fcfs, without prefix caching:",
            f"- A step computes at most {counted(self.token_budget, 'token')}. First the running list is walked from "
            "its front: each computes what it still lacks of its known tokens (its prompt, and its answer so far), and "
            "gets the blocks for that.",
            f"- If there are too few blocks, {VICTIMS[self.victim]} goes back to the front of the queue, be it the one "
            "that asked, and the walk goes on or tries again: its blocks are free, what it had computed is lost, its "
            "answer so far is kept. Such a step admits nobody.",
            "- Else the queue is served from its front, up to the first that cannot be placed: the blocks for all its "
            f"known tokens must be free now, though only those it computes now are taken; at most {self.max_num_seqs} "
            "run. Who is admitted goes to the end of the running list.",
            "- Whose known tokens are all computed at the end of a step samples one token more. The last token of an "
            "answer never needs a slot: who has it is finished, and its blocks are free in the next step.",
            "The requests, in the order of the queue:",
        ]
        lines += [
            f"  r{row}: a prompt of {counted(each.prompt, 'token')}, an answer of {each.output}, there from step "
            f"{each.step} on"
            for row, each in enumerate(requests)
        ]
        return tuple(lines)

    def _parsed(self, explicit: str) -> list[Request]:
        found: list[Request] = []
        for place, part in enumerate(o.words(explicit, ACCEPTED), start=1):
            form = FORM.fullmatch(part)
            if form is None or not int(form["prompt"]) or not int(form["output"]):
                raise o.refused(place, part, ACCEPTED)
            request = Request(int(form["prompt"]), int(form["output"]), int(form["step"] or 0))
            most = self.config.usable_tokens
            if request.prompt + request.output - 1 > most:
                raise o.refused(place, part, f"P + N - 1 up to {most}, the slots of the pool")
            if found and request.step < found[-1].step:
                raise o.refused(place, part, f"a step no earlier than that of the part before it, {found[-1].step}")
            found.append(request)
        if sum(each.output for each in found) > MOST_TOKENS:
            raise o.refused(1, explicit[:40], f"up to {MOST_TOKENS} tokens of all answers together")
        return found

    def _drawn(self, draws: Draws) -> list[Request]:
        most = self.config.usable_tokens
        steps = sorted(draws.between(0, self.last_arrival) for _ in range(self.requests))
        found: list[Request] = []
        for step in [0, *steps[1:]]:
            prompt = draws.between(1, min(self.max_prompt, most))
            found.append(Request(prompt, draws.between(1, min(self.max_output, most - prompt + 1)), step))
        return found

    def _served(self, requests: list[Request]) -> ServingLog:
        steps, prompts, outputs = zip(*((each.step, each.prompt, each.output) for each in requests), strict=True)
        trace = Trace(np.array(steps, np.float64), np.array(prompts, np.int64), np.array(outputs, np.int64))
        return serve(trace, self.config, ConstantStep(1.0))

    def _who(self, log: ServingLog, history: list[Round]) -> Question:
        put_back = [[each.step, row] for each in history for row in each.preempted]
        shown = ", ".join(f"r{row} in step {step}" for step, row in put_back) or "nobody"
        return Question(
            "Who is put back, in which step? Steps count from 0.",
            (
                Blank("preemptions", "step and request of each preemption, in order", put_back, shown),
                Blank(
                    "peak_blocks_used", "the most blocks in use in any step", log.totals()["peak_blocks_used"],
                    str(log.totals()["peak_blocks_used"]),
                ),
            ),
            tuple(explained(history, self.config)),
        )  # fmt: skip

    def _when(self, log: ServingLog, requests: list[Request], history: list[Round]) -> Question:
        last = {row: each.step for each in history for row in each.finished}
        blanks = tuple(
            Blank(f"r{row}", f"step in which r{row} samples its last token", last[row], str(last[row]))
            for row in range(len(requests))
        )
        working = [
            f"r{row}: {each.prompt} + {each.output} - 1 = {each.prompt + each.output - 1} tokens computed after "
            f"step {last[row]}"
            for row, each in enumerate(requests)
        ]
        return Question("When does each request finish?", blanks, tuple(working))

    def _cost(self, log: ServingLog, history: list[Round]) -> Question:
        again, computed = log.recomputed_tokens, log.totals()["scheduled_tokens"]
        lost = [f"r{row} {tokens}" for each in history for row, tokens in each.lost.items()]
        needed = int((log.prompt_tokens + log.output_tokens - 1).sum())
        assert needed + again == computed and sum(sum(each.lost.values()) for each in history) == again, history
        return Question(
            "What did it cost?",
            (
                Blank("recomputed_tokens", "tokens computed once more", again, str(again)),
                Blank("scheduled_tokens", "tokens computed in all", computed, str(computed)),
                Blank("steps", "steps in which anybody ran", len(history), str(len(history))),
            ),
            (
                f"computed and lost: {', '.join(lost)}; all of it is computed once more: {again}"
                if lost
                else "nothing is lost, so nothing is computed twice",
                f"without preemptions {needed} tokens would be computed, so {needed} + {again} = {computed}",
            ),
        )
