"""Which batches are timed: small loads, each of so many sequences at once and of lengths around a mean.

Lengths are drawn, as a server's are: a ragged batch costs more than an even one. Requests are let in by the count of
steps, not by a clock, so that a load makes the same batches each time. One load of four is held out, with lengths that
are drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PROMPTS = (1 / 32, 1 / 8, 1 / 3)  # mean prompts, of the longest sequence
ANSWERS = (16, 48, 96)  # mean answers, in tokens, taken in turn; at most a quarter of the longest sequence
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
    """For each number of sequences at once, loads of short and long prompts, and one to be held out."""
    draw = np.random.default_rng(SEED)
    made, most = [], reach.sequence_tokens // 4
    for number, sequences in enumerate(_numbers(reach.sequences)):
        for place, share in enumerate(PROMPTS):
            answer = min(ANSWERS[(number + place) % len(ANSWERS)], most)
            made.append(_load(draw, reach, sequences, share * reach.sequence_tokens, answer, False))
        low, high = np.log((PROMPTS[0], PROMPTS[-1]))
        answer = min(round(np.exp(draw.uniform(*np.log((ANSWERS[0], ANSWERS[-1]))))), most)
        prompt = np.exp(draw.uniform(low, high)) * reach.sequence_tokens
        made.append(_load(draw, reach, sequences, prompt, answer, True))
    return [load for load in made if load is not None]


def _numbers(most: int) -> Iterator[int]:
    number = 1
    while number < most:
        yield number
        number *= LARGEST_STEP
    yield most


def _load(
    draw: np.random.Generator, reach: Reach, sequences: int, prompt: float, answer: float, held_out: bool
) -> Load | None:
    """None if so many of that length do not fit into the pool.

    All places are taken at first, by requests at different points of their answers; then one comes for each that goes.
    """
    if sequences * 1.5 * (prompt + answer) > reach.pool_tokens:
        return None
    count = 2 * sequences + 2
    prompts = draw.integers(max(1, round(prompt / 2)), max(1, round(1.5 * prompt)), count, endpoint=True)
    answers = draw.integers(max(2, round(answer / 2)), max(2, round(1.5 * answer)), count, endpoint=True)
    answers[:sequences] = draw.integers(2, max(2, round(1.5 * answer)), sequences, endpoint=True)
    steps = np.concatenate((np.zeros(sequences), np.arange(1, count - sequences + 1) * answer / sequences)).astype(int)
    name = f"{sequences} at once, prompts of {prompt:.0f}, answers of {answer:.0f}"
    requests = (Request(*each) for each in zip(steps.tolist(), prompts.tolist(), answers.tolist(), strict=True))
    return Load(name, held_out, tuple(requests))
