"""A batch of prefill chunks: for each sequence the tokens to be computed now, behind a prefix cached already."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagesim.kernels.errors import InputError
from pagesim.kernels.sequences import Ints, Sequences, host_ints


@dataclass(frozen=True, slots=True)
class Chunks:
    """The last `counts[s]` tokens of sequence s are its chunk; what comes before is its prefix. Build it with `of`.

    Queries are packed, chunk after chunk: rows `starts[s]` to `starts[s + 1]` of a [T, heads, head_dim] tensor are
    those of sequence s. The K and V of the chunk itself are in the cache before attention reads them.
    """

    sequences: Sequences
    starts: torch.Tensor  # [S + 1] int32, on the device
    host_starts: torch.Tensor  # the same, on the host

    @classmethod
    def of(cls, sequences: Sequences, counts: Ints) -> Chunks:
        """Check `counts`, [S] ints, each from 1 to the length of its sequence. Raises InputError that names the one."""
        host = host_ints("counts", counts)
        if host.dim() != 1 or len(host) != len(sequences):
            raise InputError(f"counts has shape {list(host.shape)}; accepted: [{len(sequences)}]")
        bad = torch.nonzero((host < 1) | (host > sequences.host_lengths)).flatten()
        if len(bad):
            row = int(bad[0])
            limit = int(sequences.host_lengths[row])
            raise InputError(f"chunk {row} has {int(host[row])} tokens; accepted: 1 to its sequence's {limit}")
        starts = torch.zeros(len(host) + 1, dtype=torch.int32)
        starts[1:] = torch.cumsum(host, 0)
        return cls(sequences, starts.to(sequences.lengths.device), starts)

    @property
    def num_tokens(self) -> int:
        """Rows of the packed query tensor."""
        return int(self.host_starts[-1])

    @property
    def max_count(self) -> int:
        """The longest chunk, in tokens; 0 for an empty batch."""
        return int(self.host_starts.diff().max()) if len(self.sequences) else 0
