"""How the CPU backend reads a ragged batch: a few groups of sequences of similar length, each padded to its longest.

One group would pad every sequence to the longest of the batch; a group for each would pay torch's overhead for each.
A group is closed once it has padded PADDING_TOKENS, whose reading costs about what another group's overhead does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from pagesim.kernels.layout import CacheLayout

GROUP_TOKENS = 2048  # a group of more is closed too: what it gathers should still be in the L2 when SDPA reads it
PADDING_TOKENS = 1024  # measured on two cores: 0.13 us a token and layer against about 100 us a group and layer

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gather:
    """One group of n sequences, padded to `width` tokens. Planned once a step; every layer reads through it.

    `rows`: [n] places in the batch, or None where the group is the batch, in its order; `lengths`: [n, 1]; `slots`:
    [2 * n * width] rows of the cache seen as [slots, KV * D], K's and then V's. Past a sequence's end its first token
    is read again: a slot that nobody wrote may hold NaN, which no mask can hide. `masks`: those that layers asked for.
    """

    rows: torch.Tensor | None
    lengths: torch.Tensor
    width: int
    slots: torch.Tensor
    masks: dict[tuple[int | None, torch.dtype], torch.Tensor] = field(default_factory=dict, repr=False)

    def mask(self, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """What is added to the scores, [n, 1, 1, width]: 0 where a token is seen, -inf elsewhere."""
        key = (window, dtype)
        if key not in self.masks:
            position = torch.arange(self.width, device=self.lengths.device)
            hidden = position >= self.lengths
            if window is not None:
                hidden |= position < self.lengths - window
            mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))
            self.masks[key] = mask[:, None, None, :]
        return self.masks[key]


def plan_gathers(
    table: torch.Tensor, lengths: torch.Tensor, layout: CacheLayout, device: torch.device
) -> tuple[Gather, ...]:
    """Group a batch. `table`: [S, W] block ids, `lengths`: [S] tokens, both on the host; the result is on `device`."""
    entries, tokens = table.numpy(), lengths.numpy().astype(np.int64)
    num_blocks = -(-tokens // layout.block_size)
    order = np.argsort(-num_blocks, kind="stable")
    stops = group_stops(num_blocks[order].tolist(), layout.block_size)
    if len(stops) == 1:
        return (_gather(entries, tokens, None, layout, device),)
    groups = zip([0, *stops], stops, strict=False)
    return tuple(_gather(entries, tokens, order[begin:stop], layout, device) for begin, stop in groups)


def group_stops(num_blocks: list[int], block_size: int) -> list[int]:
    """Where each group ends, for sequences of `num_blocks` blocks each, longest first."""
    stops = []
    widest = held_tokens = padded_tokens = 0
    for place, count in enumerate(num_blocks):
        held_tokens += widest * block_size
        padded_tokens += (widest - count) * block_size
        if place == 0 or padded_tokens > PADDING_TOKENS or held_tokens > GROUP_TOKENS:
            if place:
                stops.append(place)
            widest, held_tokens, padded_tokens = count, count * block_size, 0
    return [*stops, len(num_blocks)] if num_blocks else []


def _gather(
    entries: NDArray[np.integer], tokens: Integers, rows: Integers | None, layout: CacheLayout, device: torch.device
) -> Gather:
    """The group of the sequences at `rows`, or of all."""
    if rows is not None:
        entries, tokens = entries[rows], tokens[rows]
    lengths = tokens[:, None]
    width = int(tokens.max())
    first = entries[:, : -(-width // layout.block_size)].astype(np.int64) * layout.block_slots
    keys = (first[:, :, None] + np.arange(min(layout.block_size, width))).reshape(len(tokens), -1)[:, :width]
    slots = np.empty((2, len(tokens), width), np.int64)
    slots[0] = np.where(np.arange(width) < lengths, keys, keys[:, :1])
    np.add(slots[0], layout.value_slots, out=slots[1])
    return Gather(
        None if rows is None else torch.from_numpy(rows).to(device),
        torch.from_numpy(lengths).to(device),
        width,
        torch.from_numpy(slots.ravel()).to(device),
    )


def read(cache: torch.Tensor, gather: Gather, layout: CacheLayout) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of the group, [n, KV, width, D] each."""
    slots = layout.slot_rows(cache).index_select(0, gather.slots)
    heads = slots.view(2, len(gather.lengths), gather.width, layout.num_kv_heads, layout.head_dim).transpose(2, 3)
    return heads[0], heads[1]
