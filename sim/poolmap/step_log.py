"""A serving log by step: who got a chunk, came in, went or got nothing in each."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from pagesim.sim.serving.log import ServingLog


class Chunk(NamedTuple):
    """When it ends, `computed` of `known` tokens are."""

    computed: int
    known: int


class StepLog:
    """By step: `chunks`, row to Chunk in order of the record; `admissions`, (row, hit tokens, blocks) in order;
    `preempted`, `held_back` and `finished`, rows. The last are those whose last token the step samples."""

    def __init__(self, log: ServingLog) -> None:
        self.chunks: dict[int, dict[int, Chunk]] = defaultdict(dict)
        self.admissions: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.preempted: dict[int, list[int]] = defaultdict(list)
        self.held_back: dict[int, list[int]] = defaultdict(list)
        self.finished: dict[int, list[int]] = defaultdict(list)
        for step, row, computed, known, _ in log.chunks.tolist():
            self.chunks[step][row] = Chunk(computed, known)
        for step, row, hit, _, blocks in log.admissions.tolist():
            self.admissions[step].append((row, hit, blocks))
        for step, row in log.preemptions.tolist():
            self.preempted[step].append(row)
        for step, row in log.held_back.tolist():
            self.held_back[step].append(row)
        rows, steps = log.finishes
        for row, step in zip(rows.tolist(), steps.tolist(), strict=True):
            self.finished[step].append(row)


class Levels:
    """How many tokens each sequence has computed: a number at a step, and one more in each step after, or none."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[int, int, int]] = {}

    def set(self, row: int, tokens: int, step: int, more: bool) -> None:
        """`tokens` when `step` ends."""
        self.of[row] = tokens, step, int(more)

    def at(self, row: int, step: int) -> int:
        """When `step` ends."""
        tokens, since, more = self.of[row]
        return tokens + more * (step - since)
