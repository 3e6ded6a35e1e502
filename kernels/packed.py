"""One step's tokens packed behind one another, without padding: where each stands in its sequence and in the cache.

Nothing loops over tokens in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pagesim.kernels.chunks import Chunks
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots


@dataclass(frozen=True, slots=True)
class Packed:
    """`positions`: [T] int64 on the device. The first rows are the `decodes`, one each, the others the `prefills`."""

    positions: torch.Tensor
    slots: Slots
    decodes: Sequences | None
    prefills: Chunks | None

    @classmethod
    def of(cls, sequences: Sequences, counts: Sequence[int]) -> Packed:
        """The last `counts[s]` tokens of each sequence s. There is one at least; those of a single token come first.

        Raises InputError on a slot that is written twice, and on a count that is not 1 to the sequence's length.
        """
        sizes = np.array(counts)
        num_decodes = int((sizes == 1).sum())
        assert sizes[:num_decodes].max(initial=1) == 1, f"decodes come first: {counts}"
        ends = np.cumsum(sizes)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        positions = np.arange(ends[-1]) + (sequences.host_lengths.numpy() - ends)[owners]
        decodes, prefills = sequences[:num_decodes], sequences[num_decodes:]
        device = sequences.lengths.device
        return cls(
            torch.from_numpy(positions).to(device),
            Slots.of(torch.from_numpy(sequences.slots(owners, positions)), sequences.layout, device),
            decodes if len(decodes) else None,
            Chunks.of(prefills, torch.from_numpy(sizes[num_decodes:])) if len(prefills) else None,
        )
