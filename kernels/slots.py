"""Where new tokens go: one slot of the pool for each, checked on the host once a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.sequences import Ints, host_ints


@dataclass(frozen=True)  # not slotted: the rows are found on first use and kept
class Slots:
    """`mapping`: [T] int64 on the device; slot = block * block_size + offset. Build it with `of`."""

    mapping: torch.Tensor
    layout: CacheLayout

    @classmethod
    def of(cls, mapping: Ints, layout: CacheLayout, device: str | torch.device) -> Slots:
        """Check and upload. Raises InputError on a slot outside the pool, or named twice: two writers would race."""
        host = host_ints("slot_mapping", mapping)
        if host.dim() != 1:
            raise InputError(f"slot_mapping has shape {list(host.shape)}; accepted: [tokens]")
        num_slots = layout.num_blocks * layout.block_size
        ordered = np.sort(host.numpy())
        if ordered.size and not 0 <= ordered[0] <= ordered[-1] < num_slots:
            token = int(torch.nonzero((host < 0) | (host >= num_slots))[0])
            raise InputError(f"token {token} goes to slot {int(host[token])}; accepted: 0 to {num_slots - 1}")
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            raise InputError(f"slot {twice[0]} is written twice; accepted: each slot once")
        return cls(host.to(torch.int64).to(device), layout)

    def __len__(self) -> int:
        return self.mapping.shape[0]

    @cached_property
    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where K and V of each token go, [T] int64 each, in the cache seen as slots (`units_view`); for all layers."""
        layout = self.layout
        gap = layout.block_stride // layout.slot_stride - layout.block_size
        keys = self.mapping + self.mapping // layout.block_size * gap
        return keys, keys + layout.block_size
