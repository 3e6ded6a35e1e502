"""Prompts that begin alike: a few texts, such as system prompts, of which each request has one in front of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.trace import HashIds, Trace

HASH_BLOCK_TOKENS = 16
ACCEPTED = f"COUNT:TOKENS, TOKENS a multiple of {HASH_BLOCK_TOKENS}"
PREFIX_STREAM = 1_000_000  # of the seed; arrivals and lengths have others


@dataclass(frozen=True, slots=True)
class Prefixes:
    """`count` texts of `tokens` tokens each, which share nothing. Raises UsageError unless `tokens` is a multiple of
    HASH_BLOCK_TOKENS, and both are 1 or more.
    """

    count: int
    tokens: int

    def __post_init__(self) -> None:
        if self.count < 1 or self.tokens < 1 or self.tokens % HASH_BLOCK_TOKENS:
            raise UsageError(f"--prefixes {self.count}:{self.tokens}; accepted: {ACCEPTED}")

    def in_front(self, trace: Trace, seed: int) -> Trace:
        """The trace with one of the texts, drawn at random, in front of each prompt, and hash ids that say so."""
        of = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(PREFIX_STREAM,))).integers(
            self.count, size=len(trace)
        )
        prompt = trace.prompt_tokens + self.tokens
        shared = self.tokens // HASH_BLOCK_TOKENS
        ids_each = -(-prompt // HASH_BLOCK_TOKENS)
        offsets = np.concatenate(([0], np.cumsum(ids_each)))
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], ids_each)
        own = self.count * shared + np.arange(offsets[-1])  # like no other
        values = np.where(place < shared, np.repeat(of, ids_each) * shared + place, own)
        return replace(
            trace, prompt_tokens=prompt, hash_ids=HashIds(values, offsets), hash_block_tokens=HASH_BLOCK_TOKENS
        )


def parse_prefixes(text: str) -> Prefixes:
    """`COUNT:TOKENS`. Raises UsageError on anything else."""
    try:
        count, tokens = (int(part) for part in text.split(":"))
    except ValueError:
        raise UsageError(f"--prefixes '{text}'; accepted: {ACCEPTED}") from None
    return Prefixes(count, tokens)
