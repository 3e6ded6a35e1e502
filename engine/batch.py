"""One step's batch, without padding: the tokens of all chunks, where they stand, and where their K and V go.

Single-token chunks come first, since they are one kernel's work, and the longest sequences first among them. Nothing
loops over tokens in Python.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from pagesim.kernels.chunks import Chunks
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots

if TYPE_CHECKING:
    from pagesim.engine.cache_manager import CacheManager
    from pagesim.engine.sequence import Sequence
    from pagesim.engine.step import Chunk

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """`token_ids`, `positions`: [T] int64 on the device. `samplers`: the sequences that get a token from this step, and
    `rows`, [R] int64, the place in the batch of the token that each one's comes after.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: Slots
    decodes: Sequences | None
    prefills: Chunks | None
    rows: torch.Tensor
    samplers: tuple[Sequence, ...]


def make_batch(chunks: Many[Chunk], manager: CacheManager, layout: CacheLayout, device: torch.device) -> Batch:
    """The batch of one step; `chunks` may not be empty."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.num_tokens > 1, -chunk.start))
    starts = np.array([chunk.start for chunk in ordered])
    counts = np.array([chunk.num_tokens for chunk in ordered])
    ends = np.cumsum(counts)
    num_tokens = int(ends[-1])
    known = (chunk.sequence.tokens[chunk.start : chunk.stop] for chunk in ordered)
    token_ids = np.fromiter(chain.from_iterable(known), np.int64, num_tokens)
    positions = np.arange(num_tokens) + np.repeat(starts - (ends - counts), counts)
    slots = [manager.slots(chunk.sequence, chunk.start, chunk.stop) for chunk in ordered]
    num_decodes = int((counts == 1).sum())
    decodes, rest = ordered[:num_decodes], ordered[num_decodes:]
    sampling = [(place, sampler) for place, chunk in enumerate(ordered) for sampler in chunk.samplers]
    return Batch(
        token_ids=torch.from_numpy(token_ids).to(device),
        positions=torch.from_numpy(positions).to(device),
        slots=Slots.of(torch.from_numpy(np.concatenate(slots)), layout, device),
        decodes=_sequences(decodes, layout, manager, device) if decodes else None,
        prefills=_prefills(rest, layout, manager, device) if rest else None,
        rows=torch.from_numpy(ends[[place for place, _ in sampling]] - 1).to(device),
        samplers=tuple(sampler for _, sampler in sampling),
    )


def _prefills(chunks: Many[Chunk], layout: CacheLayout, manager: CacheManager, device: torch.device) -> Chunks:
    return Chunks.of(_sequences(chunks, layout, manager, device), [chunk.num_tokens for chunk in chunks])


def _sequences(chunks: Many[Chunk], layout: CacheLayout, manager: CacheManager, device: torch.device) -> Sequences:
    """Where the chunks' sequences lie, each as long as its chunk leaves it."""
    lengths = torch.tensor([chunk.stop for chunk in chunks])
    if not manager.is_paged:
        first_slots = torch.tensor([manager.slot(chunk.sequence, 0) for chunk in chunks])
        return Sequences.contiguous(lengths, layout, device, first_slots=first_slots)
    tables = [chunk.sequence.block_table for chunk in chunks]
    table = np.zeros((len(tables), max(map(len, tables))), np.int64)
    for row, blocks in enumerate(tables):
        table[row, : len(blocks)] = blocks
    return Sequences.paged(torch.from_numpy(table), lengths, layout, device)
