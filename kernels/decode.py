"""Decode attention: one new token per sequence against everything the sequence has in the cache. The typed wrapper."""

from __future__ import annotations

import torch

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.decode_grouped_kernel import decode_grouped_kernel
from pagesim.kernels.decode_one_head_kernel import decode_one_head_kernel
from pagesim.kernels.decode_reduce_kernel import decode_reduce_kernel
from pagesim.kernels.errors import InputError
from pagesim.kernels.launch_checks import check_launch
from pagesim.kernels.layout import check_query
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.runtime import card_of, interpreting, on_device
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.settings import Body, Card, DecodeLaunch, DecodeShape, decode_launch, padded_dim

REDUCE_STEP = 16


def decode_attention(
    query: torch.Tensor,
    cache: torch.Tensor,
    sequences: Sequences,
    options: AttentionOptions,
    *,
    addressing: Addressing = Addressing.BY_BLOCK,
    card: Card | None = None,
    launch: DecodeLaunch | None = None,
) -> torch.Tensor:
    """Attention of `query`, [S, heads, head_dim], over `cache`, [blocks, 2, block_size, kv_heads * head_dim].

    Returns [S, heads, head_dim] in the cache's dtype. `card` is the device's unless given; `launch` follows from it and
    the shapes unless given. Raises InputError or UnsupportedError on what the kernels cannot take, BackendError where
    Triton cannot run.
    """
    card = card or card_of(query.device)
    check_query(query, sequences.layout, len(sequences))
    check_launch(query, cache, sequences, addressing, card)
    launch = launch or decode_launch(card, decode_shape(query, sequences), addressing)
    check_tile(launch.tile, sequences, addressing)
    output = torch.empty_like(query)
    if not len(sequences):
        return output
    with on_device(query.device):
        if launch.splits == 1:
            _walk(query, cache, sequences, options, addressing, launch, output, output)
        else:
            size = (len(sequences), query.shape[1], launch.splits)
            partial = torch.empty((*size, query.shape[2]), dtype=torch.float32, device=query.device)
            lse = torch.empty(size, dtype=torch.float32, device=query.device)
            _walk(query, cache, sequences, options, addressing, launch, partial, lse)
            _reduce(partial, lse, output)
    return output


def decode_shape(query: torch.Tensor, sequences: Sequences) -> DecodeShape:
    """The sizes that decide the launch."""
    layout = sequences.layout
    return DecodeShape(
        len(sequences), sequences.max_length, query.shape[1], layout.num_kv_heads, layout.head_dim, layout.block_size,
        layout.dtype.itemsize,
    )  # fmt: skip


def check_tile(tile: int, sequences: Sequences, addressing: Addressing) -> None:
    """Raise InputError if one lookup is to serve a tile that would straddle two blocks."""
    if addressing is Addressing.BY_BLOCK and sequences.layout.block_size % tile:
        raise InputError(
            f"tile is {tile}; accepted with BY_BLOCK: a divisor of block_size {sequences.layout.block_size}"
        )


def decode_constants(
    head_dim: int,
    block_size: int,
    addressing: Addressing,
    launch: DecodeLaunch,
    *,
    has_window: bool = False,
    has_cap: bool = False,
    dot_fp32: bool = False,
) -> dict[str, int | bool]:
    """The compile-time constants of the body that `launch` names."""
    constants = {
        "HEAD_DIM": head_dim,
        "DIM": padded_dim(head_dim),
        "BLOCK_SIZE": block_size if addressing.reads_table else 1,
        "TILE": launch.tile,
        "ADDRESSING": int(addressing),
        "HAS_WINDOW": has_window,
        "HAS_CAP": has_cap,
        "IS_SPLIT": launch.splits > 1,
    }
    return constants if launch.body is Body.ONE_HEAD else constants | {"ROWS": launch.rows, "DOT_FP32": dot_fp32}


def _walk(
    query: torch.Tensor,
    cache: torch.Tensor,
    sequences: Sequences,
    options: AttentionOptions,
    addressing: Addressing,
    launch: DecodeLaunch,
    output: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """Launch the body. `output` is the result, or the partial results of the splits, whose log-sum-exp go to `lse`."""
    layout = sequences.layout
    num_heads = query.shape[1]
    group = num_heads // layout.num_kv_heads
    table = sequences.table
    arguments = (
        query, cache, table, sequences.lengths, output, lse,
        options.score_factor, options.cap_factor, options.window or 0,
        layout.block_stride, layout.value_stride, layout.slot_stride, table.stride(0),
        num_heads, group,
    )  # fmt: skip
    constants = decode_constants(
        layout.head_dim,
        layout.block_size,
        addressing,
        launch,
        has_window=options.window is not None,
        has_cap=options.softcap is not None,
        dot_fp32=interpreting() and query.dtype is torch.bfloat16,
    )
    launched = {"num_warps": launch.warps, "num_stages": launch.stages}
    if launch.body is Body.ONE_HEAD:
        decode_one_head_kernel[(num_heads, len(sequences), launch.splits)](*arguments, **constants, **launched)
        return
    grid = (layout.num_kv_heads * -(-group // launch.rows), len(sequences), launch.splits)
    decode_grouped_kernel[grid](*arguments, **constants, **launched)


def _reduce(partial: torch.Tensor, lse: torch.Tensor, output: torch.Tensor) -> None:
    num_sequences, num_heads, num_splits, head_dim = partial.shape
    decode_reduce_kernel[(num_sequences * num_heads,)](
        partial, lse, output, num_splits, HEAD_DIM=head_dim, DIM=padded_dim(head_dim), STEP=REDUCE_STEP, num_warps=1
    )
