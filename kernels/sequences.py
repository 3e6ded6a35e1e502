"""What a kernel walks: the lengths and block tables of a batch, checked on the host and put on the device once a step.

The checks read every value, which on a device would stall it; here they are done once and serve all layers. Left out:
who owns which block, and why. That is the engine's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.cpu_gather import Gather, plan_gathers
from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import INT32_MAX, CacheLayout

Ints = Sequence[int] | torch.Tensor


@dataclass(frozen=True)  # not slotted: the gathers of the CPU backend are planned on first use and kept
class Sequences:
    """A ragged batch over one cache layout. Build it with `paged` or `contiguous`.

    `lengths`: [S] int32 on the device, tokens in the cache; `block_table`: [S, W] int32 on the device, or None where
    sequence s is row s of a contiguous cache; `host_lengths` and `host_table`: the same on the host.
    """

    layout: CacheLayout
    lengths: torch.Tensor
    block_table: torch.Tensor | None
    host_lengths: torch.Tensor
    host_table: torch.Tensor | None

    @classmethod
    def paged(
        cls, block_table: torch.Tensor, lengths: Ints, layout: CacheLayout, device: str | torch.device
    ) -> Sequences:
        """Check and upload. `block_table`: [S, W] on the host, int32 or int64; `lengths`: [S] ints, each at least 1.

        Entries past a sequence's last block are not looked at. Raises InputError that names the sequence.
        """
        host_lengths = _checked_lengths(lengths)
        host_table = host_ints("block_table", block_table)
        if host_table.dim() != 2 or len(host_table) != len(host_lengths):
            raise InputError(f"block_table has shape {list(host_table.shape)}; accepted: [{len(host_lengths)}, blocks]")
        _check_table(host_table, host_lengths, layout)
        host_table = host_table.to(torch.int32).contiguous()
        return cls(layout, host_lengths.to(device), host_table.to(device), host_lengths, host_table)

    @classmethod
    def contiguous(cls, lengths: Ints, layout: CacheLayout, device: str | torch.device) -> Sequences:
        """The same without a table: sequence s lives in row s of the cache. Raises InputError if it does not fit."""
        host_lengths = _checked_lengths(lengths)
        if len(host_lengths) > layout.num_blocks:
            raise InputError(
                f"{len(host_lengths)} sequences; accepted: at most the {layout.num_blocks} rows of the cache"
            )
        if len(host_lengths) and int(host_lengths.max()) > layout.block_size:
            raise InputError(
                f"length {int(host_lengths.max())}; accepted: at most the {layout.block_size} tokens of a row"
            )
        return cls(layout, host_lengths.to(device), None, host_lengths, None)

    def __len__(self) -> int:
        return len(self.host_lengths)

    @cached_property
    def max_length(self) -> int:
        """The longest sequence, in tokens; 0 for an empty batch."""
        return int(self.host_lengths.max()) if len(self) else 0

    @cached_property
    def gathers(self) -> tuple[Gather, ...]:
        """How the CPU backend reads the batch: see `cpu_gather`."""
        rows = self.host_table if self.host_table is not None else torch.arange(len(self))[:, None]
        return plan_gathers(rows, self.host_lengths, self.layout, self.lengths.device)

    def check_addressing(self, addressing: Addressing) -> None:
        """Raise InputError unless a table is there exactly where `addressing` reads one."""
        if addressing.reads_table != (self.block_table is not None):
            has = "have no" if self.block_table is None else "have a"
            raise InputError(
                f"addressing is {addressing.name} and the sequences {has} block table; accepted: the other way"
            )


def host_ints(name: str, values: Ints) -> torch.Tensor:
    """`values` as an int32 or int64 tensor on the host. Raises InputError that calls them `name`."""
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(list(values), dtype=None if len(values) else torch.int64)
    tensor = values.to("cpu")
    if tensor.dtype not in (torch.int32, torch.int64):
        raise InputError(f"{name} has dtype {tensor.dtype}; accepted: int32 or int64")
    return tensor


def _checked_lengths(values: Ints) -> torch.Tensor:
    host = host_ints("lengths", values)
    if host.dim() != 1:
        raise InputError(f"lengths has shape {list(host.shape)}; accepted: [sequences]")
    lengths = host.numpy()
    bad = (lengths < 1) | (lengths > INT32_MAX)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"sequence {row} has length {int(host[row])}; accepted: 1 to {INT32_MAX}")
    return host.to(torch.int32).contiguous()


def _check_table(table: torch.Tensor, lengths: torch.Tensor, layout: CacheLayout) -> None:
    if not len(table):
        return
    entries = table.numpy()
    num_blocks = -(-lengths.numpy().astype(np.int64) // layout.block_size)
    if int(num_blocks.max()) > table.shape[1]:
        row = int(num_blocks.argmax())
        raise InputError(
            f"sequence {row} has {int(lengths[row])} tokens in blocks of {layout.block_size}, and {table.shape[1]} "
            f"table entries; accepted: at least {int(num_blocks[row])}"
        )
    used = np.arange(table.shape[1]) < num_blocks[:, None]
    bad = used & ((entries < 0) | (entries >= layout.num_blocks))
    if bad.any():
        row, column = (int(place[0]) for place in bad.nonzero())
        raise InputError(
            f"entry {column} of sequence {row} is block {int(table[row, column])}; "
            f"accepted: 0 to {layout.num_blocks - 1}"
        )
