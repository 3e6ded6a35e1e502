"""CUDA graphs for steps that only decode: the whole forward pass replayed in one launch, for a few batch sizes.

A step is padded to the next size with sequences of one token in the null block, which nobody reads. Only paged caches
have one; the others run without graphs, and so does a step with a prefill chunk in it.

**This has not run on a card.** Padding and buffers are tested on a CPU, with a capture that replays by running again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.packed import Packed
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots

Forward = Callable[[], torch.Tensor]
Capture = Callable[[Forward], Forward]
WARM_UP_RUNS = 2  # compile the kernels and let libraries set themselves up, outside the capture


def batch_sizes(largest: int) -> list[int]:
    """1, 2, 4, 8, 16, then every multiple of 16 below `largest`, and `largest` itself."""
    return sorted({size for size in (1, 2, 4, 8, *range(16, largest, 16)) if size < largest} | {largest})


class DecodeGraphs:
    """`logits`: the pass, captured at the first use of each size. `largest`: the most sequences of a step."""

    def __init__(
        self,
        logits: Callable[[Packed], torch.Tensor],
        layout: CacheLayout,
        device: torch.device,
        largest: int,
        max_model_len: int,
        capture: Capture | None = None,
    ) -> None:
        self._logits = logits
        self._capture = capture or CudaCapture(device)
        self._replays: dict[int, Forward] = {}
        self._sizes = batch_sizes(largest)
        # a launch is chosen for the longest sequence there can be, since a graph cannot choose again
        longest = torch.full((largest,), max_model_len, dtype=torch.int32)
        table = torch.zeros(largest, -(-max_model_len // layout.block_size), dtype=torch.int32)
        self._sequences = Sequences(layout, torch.ones_like(longest).to(device), table.to(device), longest, table, True)
        self._token_ids, self._positions, self._slots = torch.zeros(3, largest, dtype=torch.int64, device=device)
        self._rows = torch.arange(largest, device=device)

    def logits(self, packed: Packed) -> torch.Tensor:
        """[R, vocab], as the pass gives them, for a step without prefill chunks."""
        decodes = packed.decodes
        assert decodes is not None and packed.prefills is None
        size = next(size for size in self._sizes if size >= len(decodes))
        self._fill(packed, decodes, size)
        if size not in self._replays:
            self._replays[size] = self._capture(self._forward(size))
        return self._replays[size]().index_select(0, packed.rows)

    def _fill(self, packed: Packed, decodes: Sequences, size: int) -> None:
        count, width = decodes.table.shape
        for buffer, values, blank in (
            (self._token_ids, packed.token_ids, 0),
            (self._positions, packed.positions, 0),
            (self._slots, packed.slots.mapping, 0),
            (self._sequences.lengths, decodes.lengths, 1),
            (self._sequences.table[:, :width], decodes.table, 0),
        ):
            buffer[:count] = values
            buffer[count:size] = blank

    def _forward(self, size: int) -> Forward:
        slots = Slots(self._slots[:size], self._sequences.layout)
        rows = self._rows[:size]
        packed = Packed(self._token_ids[:size], self._positions[:size], slots, self._sequences[:size], None, rows)
        return lambda: self._logits(packed)


class CudaCapture:
    """All graphs share one pool of memory, since they never run at the same time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, forward: Forward) -> Forward:
        """What replays `forward`, and gives the tensor it wrote then."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                forward()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            logits = forward()

        def replay() -> torch.Tensor:
            graph.replay()
            return logits

        return replay
