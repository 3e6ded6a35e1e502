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

Ints = npt.NDArray[np.int64]

GROUP_TOKENS = 16384  # a group of more is closed too: larger gathers are slower, by a half and more at fp32
PADDING_TOKENS = 1024  # measured on two cores: 0.13 us a token and layer against about 100 us a group and layer


@dataclass(frozen=True, slots=True)
class Gather:
    """One group of n sequences, padded to `width` tokens.

    `rows`: places in the batch, [n] int64, or a slice where they follow one another; `lengths`: [n, 1] int64;
    `key_units`, `value_units`: [n * width / unit] int64, places in the cache seen as [units, unit, KV * D], where a
    unit is a block when paged, one slot when contiguous; `padding`: flat places in [n * width] that hold no token of
    the sequence; `masks`: by window, once asked for.
    """

    rows: torch.Tensor | slice
    lengths: torch.Tensor
    width: int
    key_units: torch.Tensor
    value_units: torch.Tensor
    padding: torch.Tensor
    unit_is_slot: bool
    masks: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def mask(self, window: int | None) -> torch.Tensor:
        """[n, 1, 1, width] bool: the positions that the last token of each sequence sees."""
        if window not in self.masks:
            position = torch.arange(self.width, device=self.lengths.device)
            seen = position < self.lengths
            if window is not None:
                seen &= position >= self.lengths - window
            self.masks[window] = seen[:, None, None, :]
        return self.masks[window]


def plan_gathers(table: Ints, lengths: Ints, block_size: int, device: torch.device) -> tuple[Gather, ...]:
    """Group a paged batch. `table`: [S, W] block ids, `lengths`: [S] tokens, both on the host."""

    def units(rows: Ints, width: int) -> Ints:
        used = np.arange(width) * block_size < lengths[rows, None]
        return 2 * np.where(used, table[rows, :width], table[rows, :1])

    return _plan(lengths, block_size, units, 1, device)


def plan_run_gathers(starts: Ints, lengths: Ints, block_size: int, device: torch.device) -> tuple[Gather, ...]:
    """The same for contiguous sequences. `starts`: [S, 2], row of the cache and slot in it."""

    def units(rows: Ints, width: int) -> Ints:
        position = np.arange(width)
        first = 2 * block_size * starts[rows, :1] + starts[rows, 1:]
        return first + np.where(position < lengths[rows, None], position, 0)

    return _plan(lengths, 1, units, block_size, device)


def _plan(
    lengths: Ints, unit: int, units: Callable[[Ints, int], Ints], to_value: int, device: torch.device
) -> tuple[Gather, ...]:
    """`unit`: tokens of one. `units`: those of K for some rows, so many wide; past a sequence's end its first one is
    named, to be read and blanked. `to_value`: from a unit of K to that of V.
    """
    num_units = -(-lengths // unit)
    order = np.argsort(-num_units, kind="stable")
    in_order = bool((np.diff(num_units) <= 0).all())
    gathers = []
    begin = 0
    for stop in group_stops(num_units[order].tolist(), unit):
        rows = order[begin:stop]
        width = int(num_units[rows[0]])
        keys = units(rows, width).ravel()
        padding = np.flatnonzero(np.arange(width * unit) >= lengths[rows, None])
        gather = Gather(
            slice(begin, stop) if in_order else torch.from_numpy(rows).to(device),
            torch.from_numpy(lengths[rows, None]).to(device),
            width * unit,
            torch.from_numpy(keys).to(device),
            torch.from_numpy(keys + to_value).to(device),
            torch.from_numpy(padding).to(device),
            unit_is_slot=to_value != 1,
        )
        gathers.append(gather)
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


def read(cache: torch.Tensor, units: torch.Tensor, gather: Gather, num_kv_heads: int) -> torch.Tensor:
    """K or V of the group, [n, KV, width, D], zero where there is no token: what lies there may be NaN."""
    num_sequences = gather.lengths.shape[0]
    slots = cache.flatten(0, 2 if gather.unit_is_slot else 1).index_select(0, units)
    slots = slots.view(num_sequences * gather.width, -1)
    if gather.padding.shape[0]:
        slots.index_fill_(0, gather.padding, 0)
    return slots.view(num_sequences, gather.width, num_kv_heads, -1).transpose(1, 2)
