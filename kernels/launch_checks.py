"""What every attention launch asks of its tensors, beyond what `Sequences` and `check_query` have looked at."""

from __future__ import annotations

import torch

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.errors import InputError, UnsupportedError
from pagesim.kernels.layout import INT32_MAX, check_block_size, check_same_device
from pagesim.kernels.reference_checks import check_cache
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.settings import Card

MAX_GRID_YZ = 65_535
MAX_SLOT_STRIDE = 2**24  # a tile of 128 slots stays within 32 bits


def check_launch(
    query: torch.Tensor, cache: torch.Tensor, sequences: Sequences, addressing: Addressing, card: Card
) -> None:
    """Raise InputError or UnsupportedError unless cache, batch and addressing fit together, and every index its type.

    Block offsets are computed in 64 bits; what stays in 32 is an offset inside a block, and the grid.
    """
    layout = sequences.layout
    check_cache(cache, layout)
    if layout.dtype is torch.bfloat16 and card.capability < 80:
        raise UnsupportedError(
            f"bfloat16 on compute capability {card.capability / 10:.1f}; accepted there: float16, float32"
        )
    check_same_device(query=query, cache=cache, lengths=sequences.lengths)
    sequences.check_addressing(addressing)
    if addressing.reads_table:
        check_block_size(layout.block_size)
        if 2 * layout.value_stride > INT32_MAX:
            raise InputError(f"a block has {2 * layout.value_stride} elements; accepted: at most {INT32_MAX}")
    if layout.slot_stride > MAX_SLOT_STRIDE:
        raise InputError(f"a slot has {layout.slot_stride} elements; accepted: at most {MAX_SLOT_STRIDE}")
    if len(sequences) > MAX_GRID_YZ:
        raise InputError(f"{len(sequences)} sequences in one launch; accepted: at most {MAX_GRID_YZ}")
    if sequences.max_length > INT32_MAX - 256:
        raise InputError(f"length {sequences.max_length}; accepted: at most {INT32_MAX - 256}")
