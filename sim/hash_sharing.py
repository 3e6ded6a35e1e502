"""How much of the prompts of a trace had been seen before: what a cache without limit would have found.

Blocks are those of the hash ids. A block is found if an earlier request had the same ids up to and including it, so a
hit always starts at the front of a prompt. Requests of the same instant count as one after the other. What a cache of
a real size, or of smaller blocks, finds is for a simulation to say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagesim.sim.trace import HashIds, Ints, Trace


@dataclass(frozen=True, slots=True)
class HashSharing:
    """Blocks and tokens of all prompts, and how many of them an endless cache finds."""

    blocks: int
    hit_blocks: int
    prompt_tokens: int
    hit_tokens: int
    distinct_ids: int

    @property
    def block_share(self) -> float:
        """Found blocks among all blocks."""
        return self.hit_blocks / self.blocks

    @property
    def token_share(self) -> float:
        """Found tokens among all prompt tokens."""
        return self.hit_tokens / self.prompt_tokens


def hash_sharing(trace: Trace) -> HashSharing | None:
    """What an endless cache finds, or None if the trace has no hash ids. A hit is never longer than its prompt."""
    if trace.hash_ids is None or trace.hash_block_tokens is None:
        return None
    found = found_blocks(trace.hash_ids)
    hit_tokens = np.minimum(found * trace.hash_block_tokens, trace.prompt_tokens)
    return HashSharing(
        blocks=len(trace.hash_ids.values),
        hit_blocks=int(found.sum()),
        prompt_tokens=int(trace.prompt_tokens.sum()),
        hit_tokens=int(hit_tokens.sum()),
        distinct_ids=len(np.unique(trace.hash_ids.values)),
    )


def found_blocks(hash_ids: HashIds) -> Ints:
    """How many leading blocks of each request an earlier one had too, int64 [requests].

    Goes through all requests block by block: `prefix` numbers the distinct beginnings so far, and a request whose
    beginning has an earlier owner has found its block. One that has not finds no further one either.
    """
    counts = np.diff(hash_ids.offsets)
    found = np.zeros(len(counts), np.int64)
    rows = np.flatnonzero(counts > 0)
    prefix = np.zeros(len(rows), np.int64)
    depth = 0
    while len(rows):
        ids = hash_ids.values[hash_ids.offsets[rows] + depth]
        order = np.lexsort((ids, prefix))  # stable: among equal beginnings the earliest request comes first
        starts = np.concatenate([[True], (np.diff(ids[order]) != 0) | (np.diff(prefix[order]) != 0)])
        prefix[order] = np.cumsum(starts)
        found[rows[order[~starts]]] += 1
        depth += 1
        longer = counts[rows] > depth
        rows, prefix = rows[longer], prefix[longer]
    return found
