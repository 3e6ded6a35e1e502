"""What a kernel walks: the lengths and block tables of a batch, checked on the host and put on the device once a step.

The checks read every value, which on a device would stall it; here they are done once and serve all layers. Left out:
who owns which block, and why. That is the engine's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.cpu_gather import Gathers, plan_gathers, plan_run_gathers
from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import INT32_MAX, CacheLayout

Ints = Sequence[int] | torch.Tensor
Array = npt.NDArray[np.int64]


@dataclass(frozen=True)  # not slotted: the gathers of the CPU backend are planned on first use and kept
class Sequences:
    """A ragged batch over one cache layout. Build it with `paged` or `contiguous`.

    `lengths`: [S] int32 on the device, tokens in the cache. `table`: int32 on the device; when paged the block table,
    [S, W]; when contiguous [S, 2], the row of the cache and the slot in it where the sequence starts. `host_lengths`
    and `host_table`: the same on the host.
    """

    layout: CacheLayout
    lengths: torch.Tensor
    table: torch.Tensor
    host_lengths: torch.Tensor
    host_table: torch.Tensor
    is_paged: bool

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
        return cls(layout, host_lengths.to(device), host_table.to(device), host_lengths, host_table, True)

    @classmethod
    def contiguous(
        cls, lengths: Ints, layout: CacheLayout, device: str | torch.device, *, first_slots: Ints | None = None
    ) -> Sequences:
        """The same without a block table: sequence s lies in one run of slots of one row of the cache.

        `first_slots`: [S], where each run starts, slot = row * block_size + offset; unless given, sequence s has row s
        to itself. Runs may not cross the end of a row. Raises InputError that names the sequence.
        """
        host_lengths = _checked_lengths(lengths)
        if first_slots is None:
            first_slots = torch.arange(len(host_lengths)) * layout.block_size
        first = host_ints("first_slots", first_slots).long()
        if first.shape != host_lengths.shape:
            raise InputError(f"first_slots has shape {list(first.shape)}; accepted: [{len(host_lengths)}]")
        starts = torch.stack((first // layout.block_size, first % layout.block_size), 1)
        _check_runs(starts, host_lengths, layout)
        starts = starts.to(torch.int32)
        return cls(layout, host_lengths.to(device), starts.to(device), host_lengths, starts, False)

    def __len__(self) -> int:
        return self.host_lengths.shape[0]

    def __getitem__(self, some: slice) -> Sequences:
        if some.indices(len(self)) == (0, len(self), 1):
            return self
        host = self.host_lengths[some], self.host_table[some]
        return Sequences(self.layout, self.lengths[some], self.table[some], *host, self.is_paged)

    def slots(self, owners: Array, positions: Array) -> Array:
        """The slots, [T] int64, of `positions`, [T], of the sequences that own them, `owners`, [T]."""
        table, size = self.host_table.numpy().astype(np.int64), self.layout.block_size
        if self.is_paged:
            rows, places = table[owners, positions // size], positions % size
        else:
            rows, places = table[owners, 0], table[owners, 1] + positions
        return rows * size + places

    @cached_property
    def max_length(self) -> int:
        """The longest sequence, in tokens; 0 for an empty batch."""
        return int(self.host_lengths.numpy().max(initial=0))

    @cached_property
    def gathers(self) -> Gathers:
        """How the CPU backend reads the batch: see `cpu_gather`."""
        plan = plan_gathers if self.is_paged else plan_run_gathers
        table, lengths = (each.numpy().astype(np.int64) for each in (self.host_table, self.host_lengths))
        return plan(table, lengths, self.layout, self.lengths.device)

    def check_addressing(self, addressing: Addressing) -> None:
        """Raise InputError unless a table is there exactly where `addressing` reads one."""
        if addressing.reads_table != self.is_paged:
            has = "have a" if self.is_paged else "have no"
            raise InputError(
                f"addressing is {addressing.name} and the sequences {has} block table; accepted: the other way"
            )


def padded_tables(tables: Sequence[Sequence[int]]) -> torch.Tensor:
    """Block tables of any lengths as one, [S, W] int64, short ones with zeros behind."""
    widths = np.array([len(table) for table in tables])
    padded = np.zeros((len(tables), widths.max(initial=0)), np.int64)
    blocks = chain.from_iterable(tables)
    padded[np.arange(padded.shape[1]) < widths[:, None]] = np.fromiter(blocks, np.int64, widths.sum())
    return torch.from_numpy(padded)


def host_ints(name: str, values: Ints) -> torch.Tensor:
    """`values` as an int32 or int64 tensor on the host. Raises InputError that calls them `name`."""
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(list(values), dtype=None if len(values) else torch.int64)
    tensor = values.to("cpu")
    if tensor.dtype not in (torch.int32, torch.int64):
        raise InputError(f"{name} has dtype {tensor.dtype}; accepted: int32 or int64")
    return tensor


def _checked_lengths(lengths: Ints) -> torch.Tensor:
    host = host_ints("lengths", lengths)
    if host.dim() != 1:
        raise InputError(f"lengths has shape {list(host.shape)}; accepted: [sequences]")
    values = host.numpy()  # small arrays: numpy takes a third of the time
    if values.size and not 1 <= values.min() <= values.max() <= INT32_MAX:
        row = int(np.flatnonzero((values < 1) | (values > INT32_MAX))[0])
        raise InputError(f"sequence {row} has length {int(values[row])}; accepted: 1 to {INT32_MAX}")
    return host.to(torch.int32).contiguous()


def _check_runs(starts: torch.Tensor, lengths: torch.Tensor, layout: CacheLayout) -> None:
    rows, firsts = starts.numpy().T
    fits = (rows >= 0) & (rows < layout.num_blocks) & (firsts + lengths.numpy() <= layout.block_size)
    if not fits.all():
        bad = int(np.flatnonzero(~fits)[0])
        raise InputError(
            f"sequence {bad} has {int(lengths[bad])} tokens from slot {firsts[bad]} of row {rows[bad]}; accepted: a "
            f"run within one of the {layout.num_blocks} rows of {layout.block_size} tokens"
        )


def _check_table(table: torch.Tensor, lengths: torch.Tensor, layout: CacheLayout) -> None:
    if not table.shape[0]:
        return
    held = lengths.numpy()
    if int(held.max()) > table.shape[1] * layout.block_size:
        row = int(held.argmax())
        raise InputError(
            f"sequence {row} has {int(lengths[row])} tokens in blocks of {layout.block_size}, and {table.shape[1]} "
            f"table entries; accepted: at least {-(-int(held[row]) // layout.block_size)}"
        )
    blocks = table.numpy()
    if 0 <= blocks.min() <= blocks.max() < layout.num_blocks:
        return
    used = np.arange(table.shape[1]) * layout.block_size < held[:, None]
    bad = np.argwhere(used & ((blocks < 0) | (blocks >= layout.num_blocks)))
    if len(bad):
        row, column = bad[0].tolist()
        raise InputError(
            f"entry {column} of sequence {row} is block {int(table[row, column])}; "
            f"accepted: 0 to {layout.num_blocks - 1}"
        )
