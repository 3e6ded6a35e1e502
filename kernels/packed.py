"""One step's tokens packed behind one another, without padding: where each stands in its sequence and in the cache.

Nothing loops over tokens in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pagesim.kernels.chunks import Chunks
from pagesim.kernels.sequences import Array, Sequences
from pagesim.kernels.slots import Slots


@dataclass(frozen=True, slots=True)
class Packed:
    """The first tokens are the `decodes`, one of each sequence, the others the `prefills`.

    `token_ids`, `positions`: [T] int64 on the device. `rows`: [R] int64, the tokens after which the next is asked for.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: Slots
    decodes: Sequences | None
    prefills: Chunks | None
    rows: torch.Tensor

    @classmethod
    def of(cls, token_ids: Array, sequences: Sequences, counts: Sequence[int], asked: Sequence[int]) -> Packed:
        """`token_ids`, [T] int64: the last `counts[s]` tokens of each sequence s. Those of a single token come first.

        `asked`: the sequences after whose last token the next is asked for. Raises InputError on a slot that is written
        twice, and on a count that is not 1 to the sequence's length.
        """
        sizes = np.array(counts)
        num_decodes = int((sizes == 1).sum())
        assert sizes[:num_decodes].max(initial=1) == 1, f"decodes come first: {counts}"
        ends = np.cumsum(sizes)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        positions = np.arange(len(token_ids)) + (sequences.host_lengths.numpy() - ends)[owners]
        prefill_sizes = torch.from_numpy(sizes[num_decodes:])
        device = sequences.lengths.device
        return cls(
            torch.from_numpy(token_ids).to(device),
            torch.from_numpy(positions).to(device),
            Slots.of(torch.from_numpy(sequences.slots(owners, positions)), sequences.layout, device),
            sequences[:num_decodes] if num_decodes else None,
            Chunks.of(sequences[num_decodes:], prefill_sizes) if len(prefill_sizes) else None,
            torch.from_numpy(ends[list(asked)] - 1).to(device),
        )
