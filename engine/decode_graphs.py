"""CUDA graphs for steps that only decode: the whole forward pass replayed in one launch, for a few batch sizes.

A batch is padded to the next size with sequences of one token in the null block, which nobody reads. Only paged caches
have one; the others run without graphs, and so does a step with a prefill chunk in it.

**This has not run on a card.** Padding and buffers are tested on a CPU, with a capture that replays by running again.
"""

from __future__ import annotations

import torch

from pagesim.engine.batch import Batch
from pagesim.engine.decoder import Decoder
from pagesim.engine.kv_cache import KvCache
from pagesim.kernels.cuda_capture import Capture, CudaCapture, Forward
from pagesim.kernels.packed import Packed
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots


def batch_sizes(largest: int) -> list[int]:
    """1, 2, 4, 8, 16, then every multiple of 16 below `largest`, and `largest` itself."""
    return sorted({size for size in (1, 2, 4, 8, *range(16, largest, 16)) if size < largest} | {largest})


class DecodeGraphs:
    """Captured at the first use of each size. `largest`: the most sequences of a step."""

    def __init__(
        self, decoder: Decoder, cache: KvCache, largest: int, max_model_len: int, capture: Capture | None = None
    ) -> None:
        device, layout = cache.layers[0].device, cache.layout
        self._decoder = decoder
        self._capture = capture or CudaCapture(device)
        self._replays: dict[int, Forward] = {}
        self._sizes = batch_sizes(largest)
        # a launch is chosen for the longest sequence there can be, since a graph cannot choose again
        longest = torch.full((largest,), max_model_len, dtype=torch.int32)
        table = torch.zeros(largest, -(-max_model_len // layout.block_size), dtype=torch.int32)
        self._sequences = Sequences(layout, torch.ones_like(longest).to(device), table.to(device), longest, table, True)
        self._token_ids, self._positions, self._slots = torch.zeros(3, largest, dtype=torch.int64, device=device)
        self._rows = torch.arange(largest, device=device)

    def logits(self, batch: Batch) -> torch.Tensor:
        """[R, vocab], as the decoder gives them, for a batch without prefill chunks."""
        decodes = batch.packed.decodes
        assert decodes is not None and batch.packed.prefills is None
        size = next(size for size in self._sizes if size >= len(decodes))
        self._fill(batch, decodes, size)
        if size not in self._replays:
            self._replays[size] = self._capture(self._forward(size))
        return self._replays[size]().index_select(0, batch.rows)

    def _fill(self, batch: Batch, decodes: Sequences, size: int) -> None:
        count, width = decodes.table.shape
        for buffer, values, blank in (
            (self._token_ids, batch.token_ids, 0),
            (self._positions, batch.packed.positions, 0),
            (self._slots, batch.packed.slots.mapping, 0),
            (self._sequences.lengths, decodes.lengths, 1),
            (self._sequences.table[:, :width], decodes.table, 0),
        ):
            buffer[:count] = values
            buffer[count:size] = blank

    def _forward(self, size: int) -> Forward:
        slots = Slots(self._slots[:size], self._sequences.layout)
        packed = Packed(self._positions[:size], slots, self._sequences[:size], None)
        batch = Batch(self._token_ids[:size], packed, self._rows[:size], ())
        return lambda: self._decoder.logits(batch)
