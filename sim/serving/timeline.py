"""A run step by step: columns with one entry for each step, expanded from stretches of like ones.

Everything is as after a step was scheduled and before its outputs are processed; a request that samples its last token
in a step is still counted as running in it, and what it holds as held.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pagesim.sim.serving.config import PAGED
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.spans import Spans, decode_spans, tail_tokens
from pagesim.sim.trace import Floats, Ints


@dataclass(frozen=True, eq=False)  # not slotted: columns are worked out when they are asked for
class Timeline:
    """The steps of `log`. Columns are int64 [steps], times float64 [steps]; tokens are slots of the pool."""

    log: ServingLog

    def _each(self, name: str) -> Ints:
        column: Ints = np.repeat(self.log.segments[name], self.log.segments["steps"])
        return column

    @cached_property
    def _place(self) -> Ints:
        """The place of each step within its stretch."""
        place: Ints = np.arange(self.log.num_steps) - np.repeat(self.log.first_steps, self.log.segments["steps"])
        return place

    @cached_property
    def start_s(self) -> Floats:
        """When each step starts."""
        place = self._place
        start: Floats = self._each("start_s") + (
            place * self._each("first_s") + self._each("growth_s") * (place * (place - 1) // 2)
        )
        return start

    @property
    def duration_s(self) -> Floats:
        """How long each takes."""
        duration: Floats = self._each("first_s") + self._place * self._each("growth_s")
        return duration

    @property
    def running(self) -> Ints:
        """Sequences in the batch, those that get nothing among them."""
        return self._each("running")

    @property
    def scheduled_tokens(self) -> Ints:
        """Tokens computed."""
        return self._each("tokens")

    @property
    def stops(self) -> Ints:
        """Why nobody else was let in, or would have been; of scheduler.Stop."""
        return self._each("stop")

    @cached_property
    def waiting(self) -> Ints:
        """Requests that have arrived, or come back, and are not in."""
        return self.log.waiting(np.arange(self.log.num_steps), self.start_s)

    @cached_property
    def blocks_used(self) -> Ints:
        """Blocks that somebody holds; slots, behind an allocator of contiguous runs."""
        used = self._each("blocks_used")
        if self.log.config.allocator != PAGED:
            return used
        grown = np.cumsum(self._spans.blocks_taken(self.log.config.block_size, self.log.num_steps))
        blocks: Ints = used + grown - np.repeat(grown[self.log.first_steps], self.log.segments["steps"])
        return blocks

    @property
    def cached_blocks(self) -> Ints:
        """Free blocks that can still be found; plain ones are taken before them."""
        usable = self.log.config.usable_tokens // self.log.slots_per_block
        return np.minimum(self._each("cached_blocks"), usable - self.blocks_used)

    @property
    def held_tokens(self) -> Ints:
        """Slots that somebody holds."""
        return self.blocks_used * self.log.slots_per_block

    @property
    def used_tokens(self) -> Ints:
        """Slots that hold a token, those that the step fills among them."""
        grown = self._place * self._each("running")  # a stretch of several steps is all decodes
        used: Ints = self._each("context_tokens") - self._each("shared_tokens") + grown
        return used

    @property
    def internal_tokens(self) -> Ints:
        """Slots held that nobody will ever fill."""
        log = self.log
        if log.config.allocator == PAGED:
            internal = tail_tokens(log, self._spans)
            internal[log.shared_tails[:, 0]] -= log.shared_tails[:, 1]
            return internal
        rows, steps = log.finishes
        slots = np.empty(len(log.arrival_s), np.int64)
        slots[log.admissions["row"]] = log.admissions["blocks"]
        more = slots - (log.prompt_tokens + log.output_tokens - 1)
        change = np.bincount(log.admissions["step"], more[log.admissions["row"]], log.num_steps + 1)
        change -= np.bincount(steps + 1, more[rows], log.num_steps + 1)
        internal = np.cumsum(change.astype(np.int64))[: log.num_steps]
        return internal

    @property
    def unusable_tokens(self) -> Ints:
        """Free slots, where they would be enough in total for the head of the queue, which cannot be placed."""
        asked = self._each("asked_blocks") * self.log.slots_per_block
        free = self.log.config.usable_tokens - self.held_tokens
        unusable: Ints = np.where((asked > 0) & (free >= asked), free, 0)
        return unusable

    @cached_property
    def _spans(self) -> Spans:
        return decode_spans(self.log)
