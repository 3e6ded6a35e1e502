"""The checks every attention kernel must pass, and that each planted mutant must fail."""

from __future__ import annotations

import mmap
from dataclasses import replace

import torch
from kernel_cases import TOLERANCE, Case, exact, worst

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.decode import decode_attention, decode_shape
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.prefill import PrefillPath, prefill_attention
from pagesim.kernels.settings import Body, Card, DecodeLaunch, decode_launch, prefill_launch

CARDS = {Body.ONE_HEAD: Card(75, 1), Body.GROUPED: Card(80, 1)}
MAP_NORESERVE = 0x4000  # Linux; the mmap module of Python 3.11 does not name it
FAR_BLOCK = 2**20 + 7  # of 16 tokens and 128 numbers: its element offset passes 2^32, its byte offset 2^33
INTERPRETED = Card(80, 1)  # one that takes bf16, whichever body is asked for


def huge_pool(num_blocks: int) -> torch.Tensor:
    """[num_blocks, 2, 16, 128] fp16 of which only the pages that are written take memory."""
    size = num_blocks * 2 * 16 * 128 * 2
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    return torch.frombuffer(memory, dtype=torch.float16).view(num_blocks, 2, 16, 128)


def launch_of(case: Case, body: Body, splits: int = 1) -> DecodeLaunch:
    """The launch of `body`, with the tile a lookup per block allows: one tile for all three addressings."""
    shape = decode_shape(case.query, case.sequences)
    return replace(decode_launch(CARDS[body], shape, Addressing.BY_BLOCK), splits=splits)


def decode(case: Case, addressing: Addressing, options: AttentionOptions, launch: DecodeLaunch) -> torch.Tensor:
    cache, sequences = (case.cache, case.sequences) if addressing.reads_table else (case.twin, case.twin_sequences)
    return decode_attention(
        case.query, cache, sequences, options, addressing=addressing, card=INTERPRETED, launch=launch
    )


# Outputs near 1.5 are at most half of 2^-10 off when only they are rounded to fp16, and not what they are summed from.
SUMMED_IN_FP32 = 7e-4


def check_decode(
    case: Case, options: AttentionOptions, body: Body, splits: int = 1, tolerance: float | None = None
) -> None:
    """Each addressing is right against float64, and the two paged ones equal the contiguous one bit for bit."""
    launch = launch_of(case, body, splits)
    expected = exact(case, options)
    tolerance = tolerance or TOLERANCE[case.query.dtype]
    twin = decode(case, Addressing.CONTIGUOUS, options, launch)
    assert worst(twin, expected) <= tolerance
    for addressing in (Addressing.BY_POSITION, Addressing.BY_BLOCK):
        paged = decode(case, addressing, options, launch)
        assert worst(paged, expected) <= tolerance, addressing.name
        assert torch.equal(paged, twin), addressing.name


def check_prefill(case: Case, options: AttentionOptions, tolerance: float | None = None) -> None:
    """The same for prefill."""
    layout = case.sequences.layout
    launch = prefill_launch(INTERPRETED, layout.head_dim, layout.dtype.itemsize, layout.block_size, Addressing.BY_BLOCK)
    expected = exact(case, options)
    tolerance = tolerance or TOLERANCE[case.query.dtype]
    twin, _ = prefill_attention(
        case.query, case.twin, case.twin_chunks, options, addressing=Addressing.CONTIGUOUS, launch=launch
    )
    assert worst(twin, expected) <= tolerance
    for addressing in (Addressing.BY_POSITION, Addressing.BY_BLOCK):
        paged, path = prefill_attention(
            case.query, case.cache, case.chunks, options, addressing=addressing, launch=launch
        )
        assert path is PrefillPath.TRITON
        assert worst(paged, expected) <= tolerance, addressing.name
        assert torch.equal(paged, twin), addressing.name
