"""How the CPU backend reads a ragged batch: a few groups of sequences of similar length, each padded to its longest.

One group would pad every sequence to the longest of the batch; a group for each would pay torch's overhead for each.
A group is closed once it has padded PADDING_TOKENS, whose reading costs about what another group's overhead does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from pagesim.kernels.layout import CacheLayout, units_view

Ints = npt.NDArray[np.int64]

GROUP_TOKENS = 2048  # a group of more is closed too: what it gathers should still be in the L2 when SDPA reads it
PADDING_TOKENS = 192  # of 0 to 1,024 about the fastest for 4 to 16 sequences of uneven lengths, on one core


@dataclass(frozen=True, slots=True)
class Gather:
    """One group of n sequences, padded to `width` tokens, the longest's.

    `rows`: its places among the sequences in the order of the plan. `lengths`: [n, 1] int64.
    `units`: [2 * n * gathered / unit] int64, K of all sequences and then V, places in the cache seen as
    [units, unit, KV * D], where a unit is a block when paged, one slot when contiguous. `gathered`: `width` in whole
    units, in tokens. `padding`: places in [2 * n * gathered] that SDPA is given and that hold no token of the sequence.
    `masks`: by window and dtype, once asked for.
    """

    rows: slice
    lengths: torch.Tensor
    width: int
    gathered: int
    units: torch.Tensor
    padding: torch.Tensor
    unit_is_slot: bool
    masks: dict[tuple[int | None, torch.dtype], torch.Tensor] = field(default_factory=dict)

    def mask(self, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """[n, 1, 1, width]: 0 where the last token of each sequence sees a position, else minus infinity."""
        if (window, dtype) not in self.masks:
            position = torch.arange(self.width, device=self.lengths.device)
            hidden = position >= self.lengths
            if window is not None:
                hidden |= position < self.lengths - window
            mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
            self.masks[window, dtype] = mask.masked_fill_(hidden, float("-inf"))[:, None, None, :]
        return self.masks[window, dtype]


@dataclass(frozen=True, slots=True)
class Gathers:
    """A batch in groups. `order`: [S] int64, its sequences from the longest to the shortest, and `inverse`, where each
    stands in that order; both None where the batch is in it.
    """

    groups: tuple[Gather, ...]
    order: torch.Tensor | None
    inverse: torch.Tensor | None


def plan_gathers(table: Ints, lengths: Ints, layout: CacheLayout, device: torch.device) -> Gathers:
    """Group a paged batch. `table`: [S, W] block ids, `lengths`: [S] tokens, both on the host."""
    each = layout.block_stride // layout.value_stride

    def units(rows: Ints | slice, used: npt.NDArray[np.bool_]) -> Ints:
        blocks = table[rows]
        return each * np.where(used, blocks[:, : used.shape[1]], blocks[:, :1])

    return _plan(lengths, layout.block_size, units, 1, device)


def plan_run_gathers(starts: Ints, lengths: Ints, layout: CacheLayout, device: torch.device) -> Gathers:
    """The same for contiguous sequences. `starts`: [S, 2], row of the cache and slot in it."""
    each = layout.block_stride // layout.slot_stride

    def units(rows: Ints | slice, used: npt.NDArray[np.bool_]) -> Ints:
        first: Ints = starts[rows] @ np.array([[each], [1]])
        return first + np.where(used, np.arange(used.shape[1]), 0)

    return _plan(lengths, 1, units, layout.block_size, device)


def _plan(
    lengths: Ints,
    unit: int,
    units: Callable[[Ints | slice, npt.NDArray[np.bool_]], Ints],
    to_value: int,
    device: torch.device,
) -> Gathers:
    """`unit`: tokens of one. `units`: those of K for some rows, [n, widest], of which so many are used; past a
    sequence's end its first one is named, to be read and blanked. `to_value`: from a unit of K to that of V.
    """
    num_units = -(-lengths // unit)
    counts = num_units.tolist()
    ordered = sorted(counts, reverse=True)
    order = None if counts == ordered else np.argsort(-num_units, kind="stable")
    groups = []
    begin = 0
    for stop in group_stops(ordered, unit):
        rows = slice(begin, stop) if order is None else order[begin:stop]
        held = lengths[rows, None]
        width, gathered = int(held.max()), ordered[begin] * unit
        beyond = np.arange(gathered) >= held
        keys = units(rows, ~beyond[:, ::unit]).ravel()
        beyond[:, width:] = False
        padding = np.flatnonzero(beyond)
        group = Gather(
            slice(begin, stop),
            torch.from_numpy(held).to(device),
            width,
            gathered,
            torch.from_numpy(np.concatenate((keys, keys + to_value))).to(device),
            torch.from_numpy(np.concatenate((padding, padding + beyond.size))).to(device),
            unit_is_slot=to_value != 1,
        )
        groups.append(group)
        begin = stop
    if order is None:
        return Gathers(tuple(groups), None, None)
    return Gathers(tuple(groups), *(torch.from_numpy(each).to(device) for each in (order, np.argsort(order))))


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


def read(cache: torch.Tensor, gather: Gather, layout: CacheLayout) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of the group, [n, KV, width, D] each, zero where there is no token: what lies there may be NaN."""
    units = units_view(cache, layout, 1 if gather.unit_is_slot else layout.block_size)
    found = units.index_select(0, gather.units)
    if gather.padding.shape[0]:
        found.view(-1, cache.shape[-1]).index_fill_(0, gather.padding, 0)
    held = found.view(2, gather.lengths.shape[0], gather.gathered, layout.num_kv_heads, -1)[:, :, : gather.width]
    heads = held.transpose(2, 3)
    return heads[0], heads[1]
