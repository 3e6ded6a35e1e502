"""Where new tokens go: one slot of the pool for each, checked on the host once a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.sequences import Ints, host_ints


@dataclass(frozen=True)  # not slotted: the rows of the CPU backend are found on first use and kept
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
        slots = host.numpy()
        bad = (slots < 0) | (slots >= num_slots)
        if bad.any():
            token = int(bad.argmax())
            raise InputError(f"token {token} goes to slot {int(slots[token])}; accepted: 0 to {num_slots - 1}")
        ordered = np.sort(slots)
        twice = ordered[1:] == ordered[:-1]
        if twice.any():
            raise InputError(f"slot {int(ordered[twice.argmax()])} is written twice; accepted: each slot once")
        return cls(host.to(torch.int64).to(device), layout)

    def __len__(self) -> int:
        return len(self.mapping)

    @cached_property
    def cache_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where K and V go in the cache seen as rows (`CacheLayout.slot_rows`), [T] int64 each."""
        layout = self.layout
        key_rows = self.mapping // layout.block_size * layout.block_slots + self.mapping % layout.block_size
        return key_rows, key_rows + layout.value_slots
