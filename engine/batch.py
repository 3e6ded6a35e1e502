"""One step's batch: the tokens of all chunks, packed, and who gets the tokens that come of it.

Single-token chunks come first, since they are one kernel's work, and the longest sequences first among them.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Chunk
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.packed import Packed
from pagesim.kernels.sequences import Sequences, padded_tables


@dataclass(frozen=True, slots=True)
class Batch:
    """`samplers`: the sequences that get a token from this step, one for each of the rows of `packed`."""

    packed: Packed
    samplers: tuple[Sequence, ...]


def make_batch(chunks: Many[Chunk], layout: CacheLayout, device: torch.device) -> Batch:
    """The batch of one step, over a cache of `layout`; `chunks` may not be empty."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.num_tokens > 1, -chunk.start))
    counts = [chunk.num_tokens for chunk in ordered]
    tokens = (sequence.tokens[start : start + count] for sequence, start, count, _ in ordered)
    token_ids = np.fromiter(chain.from_iterable(tokens), np.int64, sum(counts))
    sampling = [(place, sampler) for place, chunk in enumerate(ordered) for sampler in chunk.samplers]
    asked = [place for place, _ in sampling]
    packed = Packed.of(token_ids, _sequences(ordered, layout, device), counts, asked)
    return Batch(packed, tuple(sampler for _, sampler in sampling))


def _sequences(chunks: Many[Chunk], layout: CacheLayout, device: torch.device) -> Sequences:
    """All have a run of slots, or all have a block table: one cache manager placed them."""
    lengths = torch.from_numpy(np.array([chunk.stop for chunk in chunks]))
    if chunks[0].sequence.first_slot is None:
        tables = padded_tables([chunk.sequence.block_table for chunk in chunks])
        return Sequences.paged(tables, lengths, layout, device)
    firsts = torch.tensor([chunk.sequence.first_slot for chunk in chunks])
    return Sequences.contiguous(lengths, layout, device, first_slots=firsts)
