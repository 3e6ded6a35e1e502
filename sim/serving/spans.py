"""When each sequence decoded, and from when on it held its last block: told from the log of a run.

A sequence that decodes, and is not held back, computes one token in each step. So a span of steps and one number say
all of it, and what it takes step by step is an arithmetic progression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.serving.log import ServingLog
from pagesim.sim.trace import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Spans of decoding, int64 [spans]: from step `first` to step `last`, both in it; `last` = `first` - 1: none.

    In step s of a span the sequence of request `row` has computed s - `base` tokens before.
    """

    row: Ints
    first: Ints
    last: Ints
    base: Ints

    def blocks_taken(self, block_size: int, num_steps: int) -> Ints:
        """Blocks that the decodes take in each step, int64 [num_steps].

        One is taken in each step congruent to `base`, so a span is a mark where that begins and one where it has
        ended, and the sum goes along the steps of each remainder by itself.
        """
        first = self.first + (self.base - self.first) % block_size
        end = self.last + 1 + (self.base - self.last - 1) % block_size
        rounds = num_steps // block_size + 2
        marks = np.bincount(first, minlength=rounds * block_size) - np.bincount(end, minlength=rounds * block_size)
        taken: Ints = marks.reshape(rounds, block_size).cumsum(axis=0).ravel()[:num_steps]
        return taken


def decode_spans(log: ServingLog) -> Spans:
    """All spans, by request and time."""
    events = _Events(log)
    begins = np.flatnonzero(events.begins)
    return Spans(
        events.row[begins],
        events.step[begins] + 1,
        events.step[begins + 1] - (1 - events.finishes[begins + 1]),
        events.base[begins],
    )


def tail_tokens(log: ServingLog, spans: Spans) -> Ints:
    """Slots at the ends of last blocks, which nobody will ever fill, int64 [steps].

    A sequence has such a tail from the step that takes its last block to the one in which it finishes, or the one
    before it is preempted.
    """
    size, num_steps = log.config.block_size, log.num_steps
    last_pass = log.prompt_tokens + log.output_tokens - 1
    before_last = (last_pass - 1) // size * size  # tokens in all blocks but the last
    tail = before_last + size - last_pass
    ends = _Ends(log)
    chunks = log.chunks[log.chunks["computed"] > before_last[log.chunks["row"]]]
    taken = spans.base + before_last[spans.row]
    decoded = (spans.first <= taken) & (taken <= spans.last)
    row = np.concatenate((chunks["row"], spans.row[decoded]))
    begin = np.concatenate((chunks["step"], taken[decoded]))
    place = ends.of(row, begin)
    place, first = np.unique(place, return_index=True)  # of several chunks into one block, the first took it
    row, begin = row[first], begin[first]
    change = np.bincount(begin, tail[row], num_steps + 1) - np.bincount(ends.step[place], tail[row], num_steps + 1)
    tails: Ints = np.cumsum(change.astype(np.int64))[:num_steps]
    return tails


class _Events:
    """What begins and ends spans, by request and time: prompts computed, decodes held back, preemptions, finishes."""

    def __init__(self, log: ServingLog) -> None:
        complete = log.chunks[log.chunks["computed"] == log.chunks["known"]]
        finish_row, finish_step = log.finishes
        steps = (complete["step"], log.held_back["step"], log.preemptions["step"], finish_step)
        rows = (complete["row"], log.held_back["row"], log.preemptions["row"], finish_row)
        kind = np.repeat(np.arange(4), [len(part) for part in steps])
        step, row = np.concatenate(steps), np.concatenate(rows)
        order = np.argsort((row * (log.num_steps + 1) + step) * 4 + kind, kind="stable")
        kind = kind[order]
        self.row, self.step = row[order], step[order]
        self.begins: NDArray[np.bool_] = kind <= 1
        self.finishes: Ints = (kind == 3).astype(np.int64)
        self.base = self._bases(
            kind, np.concatenate((complete["known"], np.zeros(len(kind) - len(complete), int)))[order]
        )

    def _bases(self, kind: Ints, known: Ints) -> Ints:
        """Of the span that an event begins: that of the computed prompt, and one more for each step held back."""
        started = np.maximum.accumulate(np.where(kind == 0, np.arange(len(kind)), 0))
        held_back = np.cumsum(kind == 1)
        base: Ints = self.step[started] + 1 - known[started] + held_back - held_back[started]
        return base


class _Ends:
    """Where what a sequence holds is given back, by request and time."""

    def __init__(self, log: ServingLog) -> None:
        finish_row, finish_step = log.finishes
        self._steps = log.num_steps + 2
        step = np.concatenate((log.preemptions["step"], finish_step + 1))
        key = np.concatenate((log.preemptions["row"], finish_row)) * self._steps + step
        self._key = np.sort(key)
        self.step = self._key % self._steps

    def of(self, row: Ints, step: Ints) -> Ints:
        """The place of the first end of `row` after `step`."""
        return np.searchsorted(self._key, row * self._steps + step, side="right")
