"""How the CPU backend reads a ragged batch: a few groups of sequences of similar length, each padded to its longest.

One group would pad every sequence to the longest of the batch; a group for each would pay torch's overhead for each.
A group is closed once it has padded PADDING_TOKENS, whose reading costs about what another group's overhead does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

GROUP_TOKENS = 16384  # a group of more is closed too: larger gathers are slower, by a half and more at fp32
PADDING_TOKENS = 1024  # measured on two cores: 0.13 us a token and layer against about 100 us a group and layer


@dataclass(frozen=True, slots=True)
class Gather:
    """One group of n sequences, padded to `width` tokens. All tensors are int64.

    `rows`: [n] places in the batch; `lengths`: [n, 1]; `key_blocks`, `value_blocks`: [n * width / B] places in the
    cache seen as [2 * blocks, B, KV * D]; `padding`: flat places in [n * width] that hold no token of the sequence.
    """

    rows: torch.Tensor
    lengths: torch.Tensor
    width: int
    key_blocks: torch.Tensor
    value_blocks: torch.Tensor
    padding: torch.Tensor


def plan_gathers(
    table: torch.Tensor, lengths: torch.Tensor, block_size: int, device: torch.device
) -> tuple[Gather, ...]:
    """Group a batch. `table`: [S, W] block ids, `lengths`: [S] tokens, both on the host; the result is on `device`."""
    lengths = lengths.long()
    num_blocks = (lengths + block_size - 1) // block_size
    order = torch.argsort(num_blocks, descending=True, stable=True)
    gathers = []
    begin = 0
    for stop in group_stops(num_blocks[order].tolist(), block_size):
        rows = order[begin:stop]
        gathers.append(_gather(table, rows, lengths[rows], int(num_blocks[rows[0]]), block_size, device))
        begin = stop
    return tuple(gathers)


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
    table: torch.Tensor, rows: torch.Tensor, lengths: torch.Tensor, width: int, block_size: int, device: torch.device
) -> Gather:
    """A group whose longest sequence has `width` blocks. Past a sequence's end its first block is read, and blanked."""
    used = torch.arange(width) * block_size < lengths[:, None]
    blocks = torch.where(used, table[rows, :width].long(), table[rows, :1].long()).flatten()
    padding = torch.nonzero((torch.arange(width * block_size) >= lengths[:, None]).flatten()).flatten()
    return Gather(
        rows.to(device),
        lengths[:, None].to(device),
        width * block_size,
        (2 * blocks).to(device),
        (2 * blocks + 1).to(device),
        padding.to(device),
    )


def read(cache: torch.Tensor, blocks: torch.Tensor, gather: Gather, num_kv_heads: int) -> torch.Tensor:
    """K or V of the group, [n, KV, width, D], zero where there is no token: what lies there may be NaN."""
    slots = cache.flatten(0, 1).index_select(0, blocks).view(len(gather.rows) * gather.width, -1)
    if len(gather.padding):
        slots.index_fill_(0, gather.padding, 0)
    return slots.view(len(gather.rows), gather.width, num_kv_heads, -1).transpose(1, 2)
