"""A pass over fixed buffers, captured as a CUDA graph: replayed in one launch.

**This has not run on a card.**
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Forward = Callable[[], torch.Tensor]
Capture = Callable[[Forward], Forward]
WARM_UP_RUNS = 2  # compile the kernels and let libraries set themselves up, outside the capture


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
