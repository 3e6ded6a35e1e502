"""One step's batch, without padding: the tokens of all chunks, where they stand, and where their K and V go.

Single-token chunks come first, since they are one kernel's work, and the longest sequences first among them. Nothing
loops over tokens in Python.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch

from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Chunk
from pagesim.kernels.chunks import Chunks
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots

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


def make_batch(chunks: Many[Chunk], layout: CacheLayout, device: torch.device) -> Batch:
    """The batch of one step, over a cache of `layout`; `chunks` may not be empty."""
    ordered = sorted(chunks, key=_rank)
    starts = np.array([chunk.start for chunk in ordered])
    counts = np.array([chunk.num_tokens for chunk in ordered])
    ends = np.cumsum(counts)
    num_tokens = int(ends[-1])
    known = (sequence.tokens[start : start + count] for sequence, start, count, _ in ordered)
    token_ids = np.fromiter(chain.from_iterable(known), np.int64, num_tokens)
    positions = np.arange(num_tokens) + np.repeat(starts - (ends - counts), counts)
    homes = _homes([chunk.sequence for chunk in ordered], layout.block_size)
    owner = np.repeat(np.arange(len(ordered)), counts)
    split = int((counts == 1).sum())
    lengths = starts + counts
    sampling = [(place, sampler) for place, chunk in enumerate(ordered) for sampler in chunk.samplers]
    return Batch(
        token_ids=torch.from_numpy(token_ids).to(device),
        positions=torch.from_numpy(positions).to(device),
        slots=Slots.of(torch.from_numpy(homes.slots(owner, positions)), layout, device),
        decodes=homes.sequences(slice(0, split), lengths, layout, device) if split else None,
        prefills=Chunks.of(
            homes.sequences(slice(split, None), lengths, layout, device), torch.from_numpy(counts[split:])
        )
        if split < len(ordered)
        else None,
        rows=torch.from_numpy(ends[[place for place, _ in sampling]] - 1).to(device),
        samplers=tuple(sampler for _, sampler in sampling),
    )


def _rank(chunk: Chunk) -> tuple[bool, int]:
    return chunk.num_tokens > 1, -chunk.start


@dataclass(frozen=True, slots=True)
class _Homes:
    """Where sequences lie: their block tables, [S, W], padded with zeros; or their first slots, [S, 1]."""

    table: Ints
    block_size: int | None  # None: contiguous

    def slots(self, owner: Ints, positions: Ints) -> Ints:
        """The slot of each position of the sequence that owns it, [T]."""
        if self.block_size is None:
            slots: Ints = self.table[owner, 0] + positions
        else:
            blocks = self.table[owner, positions // self.block_size]
            slots = blocks * self.block_size + positions % self.block_size
        return slots

    def sequences(self, some: slice, lengths: Ints, layout: CacheLayout, device: torch.device) -> Sequences:
        """Some of them, each as long as its chunk leaves it."""
        table, some_lengths = torch.from_numpy(self.table[some]), torch.from_numpy(lengths[some])
        if self.block_size is None:
            return Sequences.contiguous(some_lengths, layout, device, first_slots=table[:, 0])
        return Sequences.paged(table, some_lengths, layout, device)


def _homes(sequences: Many[Sequence], block_size: int) -> _Homes:
    """All have a run of slots, or all have a block table: one cache manager placed them."""
    if sequences[0].first_slot is not None:
        return _Homes(np.array([[sequence.first_slot] for sequence in sequences], np.int64), None)
    tables = [sequence.block_table for sequence in sequences]
    widths = np.array([len(blocks) for blocks in tables])
    table = np.zeros((len(tables), widths.max()), np.int64)
    table[np.arange(table.shape[1]) < widths[:, None]] = np.fromiter(
        chain.from_iterable(tables), np.int64, widths.sum()
    )
    return _Homes(table, block_size)
