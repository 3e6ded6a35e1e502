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
        device = cache.layers[0].device
        self._decoder = decoder
        self._layout = cache.layout
        self._max_model_len = max_model_len
        self._capture = capture or CudaCapture(device)
        self._replays: dict[int, Forward] = {}
        self._sizes = batch_sizes(largest)
        width = -(-max_model_len // cache.layout.block_size)
        self._token_ids = torch.zeros(largest, dtype=torch.int64, device=device)
        self._positions = torch.zeros(largest, dtype=torch.int64, device=device)
        self._slots = torch.zeros(largest, dtype=torch.int64, device=device)
        self._lengths = torch.ones(largest, dtype=torch.int32, device=device)
        self._table = torch.zeros(largest, width, dtype=torch.int32, device=device)
        self._rows = torch.arange(largest, device=device)

    def logits(self, batch: Batch) -> torch.Tensor:
        """[R, vocab], as the decoder gives them, for a batch without prefill chunks."""
        assert batch.decodes is not None and batch.prefills is None
        count = len(batch.decodes)
        size = next(size for size in self._sizes if size >= count)
        self._fill(batch, batch.decodes, count, size)
        if size not in self._replays:
            self._replays[size] = self._capture(self._forward(size))
        return self._replays[size]().index_select(0, batch.rows)

    def _fill(self, batch: Batch, decodes: Sequences, count: int, size: int) -> None:
        for buffer, values, blank in (
            (self._token_ids, batch.token_ids, 0),
            (self._positions, batch.positions, 0),
            (self._slots, batch.slots.mapping, 0),
            (self._lengths, decodes.lengths, 1),
        ):
            buffer[:count] = values
            buffer[count:size] = blank
        self._table[:count, : decodes.table.shape[1]] = decodes.table
        self._table[count:size] = 0

    def _forward(self, size: int) -> Forward:
        """A launch is chosen for the longest sequence there can be, since a graph cannot choose again."""
        longest = torch.full((size,), self._max_model_len, dtype=torch.int32)
        host_table = torch.zeros(size, self._table.shape[1], dtype=torch.int32)
        batch = Batch(
            token_ids=self._token_ids[:size],
            positions=self._positions[:size],
            slots=Slots(self._slots[:size], self._layout),
            decodes=Sequences(self._layout, self._lengths[:size], self._table[:size], longest, host_table, True),
            prefills=None,
            rows=self._rows[:size],
            samplers=(),
        )
        return lambda: self._decoder.logits(batch)
