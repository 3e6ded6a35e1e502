"""Which batches are timed: small loads, each of so many sequences at once and of lengths around a mean.

Lengths are drawn and spread widely, as a server's are: a ragged batch costs more than an even one. Requests are let in
by the count of steps, not by a clock, so that a load makes the same batches each time. One load of four is held out,
with lengths that are drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
PROMPTS = (1 / 32, 1 / 8, 1 / 3)  # mean prompts, of the longest sequence
ANSWERS = (16, 48, 96)  # mean answers, in tokens, taken in turn; at most a quarter of the longest sequence
SPREAD = 0.7  # sigma of the lognormal lengths: their standard deviation is 0.8 of the mean
FEWEST_REQUESTS = 12  # of a load, so that its lengths come near their mean
FULL = 0.8  # of the pool at most, in the mean: above, sequences would be preempted
LEAST_TOKENS = 16  # of a sequence, in the mean: with less room, fewer of them are enough
LARGEST_STEP = 2  # from one number of sequences to the next
SEED = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """How far batches go: `sequences` at once at most, `sequence_tokens` of one, `pool_tokens` of all together."""

    sequences: int
    sequence_tokens: int
    pool_tokens: int


@dataclass(frozen=True, slots=True)
class Request:
    """`step`: the step of the load at which it is let in."""

    step: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Load:
    """Requests in order of steps."""

    name: str
    held_out: bool
    requests: tuple[Request, ...]


def loads(reach: Reach) -> list[Load]:
    """For each number of sequences at once, loads of short and long prompts, and one to be held out.

    Where so many do not fit into the pool, all are shorter; what comes out as the same load twice is there once.
    """
    draw = np.random.default_rng(SEED)
    made: dict[str, Load] = {}
    for number, sequences in enumerate(_numbers(reach.sequences)):
        drawn_prompt, drawn_answer = (np.exp(draw.uniform(*np.log((each[0], each[-1])))) for each in (PROMPTS, ANSWERS))
        wanted = [(share, ANSWERS[(number + place) % len(ANSWERS)], False) for place, share in enumerate(PROMPTS)]
        for share, answer, held_out in (*wanted, (drawn_prompt, drawn_answer, True)):
            room = FULL * reach.pool_tokens / sequences
            if room < LEAST_TOKENS:
                continue
            answer_tokens = min(answer, reach.sequence_tokens // 4, room / 2)
            prompt_tokens = min(share * reach.sequence_tokens, room - answer_tokens)
            load = _load(draw, reach, sequences, prompt_tokens, answer_tokens, held_out)
            made.setdefault(load.name, load)
    return list(made.values())


def _numbers(most: int) -> Iterator[int]:
    number = 1
    while number < most:
        yield number
        number *= LARGEST_STEP
    yield most


def _load(
    draw: np.random.Generator, reach: Reach, sequences: int, prompt: float, answer: float, held_out: bool
) -> Load:
    """All places are taken at first, by requests at different points of their answers; then one comes for each that
    goes.
    """
    count = max(FEWEST_REQUESTS, 2 * sequences + 2)
    answers = np.clip(_lengths(draw, answer, count), 2, reach.sequence_tokens // 2)
    prompts = np.clip(_lengths(draw, prompt, count), 1, reach.sequence_tokens - answers)
    answers[:sequences] = np.maximum(2, answers[:sequences] * draw.uniform(0, 1, sequences))
    steps = np.concatenate((np.zeros(sequences), np.arange(1, count - sequences + 1) * answer / sequences)).astype(int)
    name = f"{sequences} at once, prompts of {prompt:.0f}, answers of {answer:.0f}" + (", held out" if held_out else "")
    requests = (Request(*each) for each in zip(steps.tolist(), prompts.tolist(), answers.tolist(), strict=True))
    return Load(name, held_out, tuple(requests))


def _lengths(draw: np.random.Generator, mean: float, count: int) -> Ints:
    """Lognormal, in whole tokens."""
    drawn: Ints = np.rint(mean * draw.lognormal(-(SPREAD**2) / 2, SPREAD, count)).astype(np.int64)
    return drawn
