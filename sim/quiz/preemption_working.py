"""The steps of a short run, sequence by sequence, out of the log of the scheduler, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pagesim.sim.quiz.wording import counted
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.steps import steps


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt of `prompt` tokens and an answer of `output`, that arrives at the start of step `step`."""

    prompt: int
    output: int
    step: int

    def __str__(self) -> str:
        return f"{self.prompt}:{self.output}" + (f"@{self.step}" if self.step else "")


@dataclass(slots=True)
class Round:
    """A step. `computed`: by row in order of the running list, tokens computed when it ends. `lost`: by row that was
    put back, tokens computed before. `prefilling`: rows with known tokens left to compute. `blocks_used`: as the
    scheduler has it.
    """

    step: int
    computed: dict[int, int]
    blocks_used: int
    admitted: list[int]
    preempted: list[int]
    finished: list[int]
    prefilling: set[int]
    lost: dict[int, int]


def rounds(log: ServingLog, requests: Sequence[Request]) -> list[Round]:
    """Every step of a run whose steps take one second. What adds up to another number of blocks is an error of ours."""
    chunks = {(step, row): computed for step, row, computed, *_ in log.chunks.tolist()}
    held_back = set(map(tuple, log.held_back.tolist()))
    known = [each.prompt for each in requests]
    now: dict[int, int] = {}
    found = []
    for number, step in enumerate(steps(log, by_clock=True)):
        admitted = [row for row, _ in step["admitted"]]
        lost = {row: now.pop(row) for row in step["preempted"]}
        for row, tokens in lost.items():
            known[row] = max(known[row], tokens + 1)
        now |= dict.fromkeys(admitted, 0)
        for row in now:
            if (number, row) in chunks:
                now[row] = chunks[number, row]
            elif now[row] >= known[row] and (number, row) not in held_back:
                now[row] += 1
        used = sum(-(-tokens // log.config.block_size) for tokens in now.values())
        assert used == step["blocks_used"], (step, now)
        prefilling = {row for row, tokens in now.items() if tokens < known[row]}
        found.append(
            Round(step["step"], dict(now), used, admitted, step["preempted"], step["finished"], prefilling, lost)
        )
        for row in step["finished"]:
            del now[row]
    return found


def explained(history: Sequence[Round], config: ServingConfig) -> Iterator[str]:
    """A line for each step: tokens computed when it ends, blocks, and what happened; then why each had to go."""
    for each in history:
        state = ", ".join(f"r{row} {tokens}" for row, tokens in each.computed.items()) or "nobody"
        happened = [
            f"{word} {', '.join(f'r{row}' for row in rows)}"
            for word, rows in (("in", each.admitted), ("put back", each.preempted), ("done", each.finished))
            if rows
        ]
        used = f"{each.blocks_used} of {config.usable_blocks} blocks"
        yield f"step {each.step}: computed {state}; {used}{''.join(f'; {what}' for what in happened)}"
    for before, each in pairwise(history):
        if each.lost:
            yield _why(before, each, config)


def _why(before: Round, each: Round, config: ServingConfig) -> str:
    size = config.block_size
    held = {row: tokens for row, tokens in before.computed.items() if row not in before.finished}
    free = config.usable_blocks - sum(-(-tokens // size) for tokens in held.values())
    full = [f"r{row}" for row, tokens in held.items() if row not in before.prefilling and tokens % size == 0]
    more = [f"r{row}" for row in held if row in before.prefilling]
    wanted = [f"{', '.join(full)} at the end of a block"] if full else []
    wanted += [f"{', '.join(more)} with known tokens left to compute"] if more else []
    gone = [
        f"r{row} ({counted(tokens, 'token')} in {counted(-(-tokens // size), 'block')})"
        for row, tokens in each.lost.items()
    ]
    return (
        f"why in step {each.step}: {' and '.join(wanted)}, and {counted(free, 'block')} free at its start; back goes "
        f"{', '.join(gone)}"
    )
