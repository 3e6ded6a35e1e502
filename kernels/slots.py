"""Where new tokens go: one slot of the pool for each, checked on the host once a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.sequences import Ints, host_ints


@dataclass(frozen=True, slots=True)
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
        bad = torch.nonzero((host < 0) | (host >= num_slots)).flatten()
        if len(bad):
            raise InputError(f"token {int(bad[0])} goes to slot {int(host[bad[0]])}; accepted: 0 to {num_slots - 1}")
        ordered = torch.sort(host).values
        twice = torch.nonzero(ordered[1:] == ordered[:-1]).flatten()
        if len(twice):
            raise InputError(f"slot {int(ordered[twice[0]])} is written twice; accepted: each slot once")
        return cls(host.to(torch.int64).to(device), layout)

    def __len__(self) -> int:
        return len(self.mapping)
