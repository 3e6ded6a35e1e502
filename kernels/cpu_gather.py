"""How the CPU backend reads a ragged batch: a few groups of sequences of similar length, each padded to its longest.

One group would pad every sequence to the longest of the batch; a group for each would pay torch's overhead for each.
A group is closed once it has padded PADDING_TOKENS, whose reading costs about what another group's overhead does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

GROUP_TOKENS = 16384  # a group of more is closed too: larger gathers are slower, by a half and more at fp32
PADDING_TOKENS = 1024  # measured on two cores: 0.13 us a token and layer against about 100 us a group and layer


@dataclass(frozen=True, slots=True)
class Gather:
    """One group of n sequences, padded to `width` tokens. All tensors are int64.

    `rows`: [n] places in the batch; `lengths`: [n, 1]; `key_units`, `value_units`: [n * width / unit] places in the
    cache seen as [units, unit, KV * D], where a unit is a block when paged, one slot when contiguous; `padding`: flat
    places in [n * width] that hold no token of the sequence.
    """

    rows: torch.Tensor
    lengths: torch.Tensor
    width: int
    key_units: torch.Tensor
    value_units: torch.Tensor
    padding: torch.Tensor
    unit_is_slot: bool


def plan_gathers(
    table: torch.Tensor, lengths: torch.Tensor, block_size: int, device: torch.device
) -> tuple[Gather, ...]:
    """Group a batch. `table`: [S, W] block ids, `lengths`: [S] tokens, both on the host; the result is on `device`."""
    lengths = lengths.long()
    gathers = []
    for rows, width in _groups(lengths, block_size):
        used = torch.arange(width) * block_size < lengths[rows, None]
        blocks = torch.where(used, table[rows, :width].long(), table[rows, :1].long()).flatten()
        gathers.append(_gather(rows, lengths[rows], width * block_size, (2 * blocks, 2 * blocks + 1), False, device))
    return tuple(gathers)


def plan_run_gathers(
    starts: torch.Tensor, lengths: torch.Tensor, block_size: int, device: torch.device
) -> tuple[Gather, ...]:
    """The same for contiguous sequences. `starts`: [S, 2], row of the cache and slot in it, on the host."""
    lengths = lengths.long()
    first_slots = 2 * block_size * starts[:, :1].long() + starts[:, 1:].long()
    gathers = []
    for rows, width in _groups(lengths, 1):
        position = torch.arange(width)
        slots = (first_slots[rows] + torch.where(position < lengths[rows, None], position, 0)).flatten()
        gathers.append(_gather(rows, lengths[rows], width, (slots, slots + block_size), True, device))
    return tuple(gathers)


def _groups(lengths: torch.Tensor, unit: int) -> Iterator[tuple[torch.Tensor, int]]:
    """Places in the batch, and the width in units of the longest, of each group."""
    num_units = (lengths + unit - 1) // unit
    order = torch.argsort(num_units, descending=True, stable=True)
    begin = 0
    for stop in group_stops(num_units[order].tolist(), unit):
        yield order[begin:stop], int(num_units[order[begin]])
        begin = stop


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
    rows: torch.Tensor,
    lengths: torch.Tensor,
    width: int,
    units: tuple[torch.Tensor, torch.Tensor],
    unit_is_slot: bool,
    device: torch.device,
) -> Gather:
    """A group padded to `width` tokens. Past a sequence's end its first unit is read, and blanked."""
    padding = torch.nonzero((torch.arange(width) >= lengths[:, None]).flatten()).flatten()
    key_units, value_units = (each.to(device) for each in units)
    return Gather(
        rows.to(device), lengths[:, None].to(device), width, key_units, value_units, padding.to(device), unit_is_slot
    )


def read(cache: torch.Tensor, units: torch.Tensor, gather: Gather, num_kv_heads: int) -> torch.Tensor:
    """K or V of the group, [n, KV, width, D], zero where there is no token: what lies there may be NaN."""
    slots = (
        cache.flatten(0, 2 if gather.unit_is_slot else 1)
        .index_select(0, units)
        .view(len(gather.rows) * gather.width, -1)
    )
    if len(gather.padding):
        slots.index_fill_(0, gather.padding, 0)
    return slots.view(len(gather.rows), gather.width, num_kv_heads, -1).transpose(1, 2)
