"""Prefill attention: the typed wrapper. It says what it ran: the Triton kernel, or torch's SDPA on gathered K and V."""

from __future__ import annotations

from enum import Enum

import torch

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.chunks import Chunks
from pagesim.kernels.cpu_prefill import prefill_attention_cpu
from pagesim.kernels.decode import check_tile
from pagesim.kernels.launch_checks import check_launch
from pagesim.kernels.layout import check_query
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.prefill_kernel import prefill_kernel
from pagesim.kernels.runtime import card_of, interpreting, on_device
from pagesim.kernels.settings import Card, PrefillLaunch, padded_dim, prefill_launch


class PrefillPath(Enum):
    """What computed a prefill."""

    TRITON = "triton"
    SDPA = "torch SDPA on gathered K and V"


def prefill_attention(
    query: torch.Tensor,
    cache: torch.Tensor,
    chunks: Chunks,
    options: AttentionOptions,
    *,
    addressing: Addressing = Addressing.BY_POSITION,
    card: Card | None = None,
    launch: PrefillLaunch | None = None,
) -> tuple[torch.Tensor, PrefillPath]:
    """Attention of packed chunks, `query` [T, heads, head_dim], each over its cached prefix and itself, causal.

    Returns the output, [T, heads, head_dim], and which path ran: below compute capability 8.0 it is SDPA on gathered K
    and V, the documented alternative. Raises InputError or UnsupportedError on what the kernel cannot take,
    BackendError where Triton cannot run.
    """
    card = card or card_of(query.device)
    layout = chunks.sequences.layout
    check_query(query, layout, chunks.num_tokens)
    check_launch(query, cache, chunks.sequences, addressing, card)
    launch = launch or prefill_launch(card, layout.head_dim, layout.dtype.itemsize, layout.block_size, addressing)
    if launch is None:
        return prefill_attention_cpu(query, cache, chunks, options), PrefillPath.SDPA
    check_tile(launch.tile, chunks.sequences, addressing)
    output = torch.empty_like(query)
    if chunks.num_tokens:
        with on_device(query.device):
            _launch(query, cache, chunks, options, addressing, launch, output)
    return output, PrefillPath.TRITON


def prefill_constants(
    head_dim: int,
    block_size: int,
    addressing: Addressing,
    launch: PrefillLaunch,
    *,
    has_window: bool = False,
    has_cap: bool = False,
    dot_fp32: bool = False,
) -> dict[str, int | bool]:
    """The compile-time constants of the prefill kernel."""
    return {
        "HEAD_DIM": head_dim,
        "DIM": padded_dim(head_dim),
        "ROWS": launch.rows,
        "BLOCK_SIZE": block_size if addressing.reads_table else 1,
        "TILE": launch.tile,
        "ADDRESSING": int(addressing),
        "HAS_WINDOW": has_window,
        "HAS_CAP": has_cap,
        "DOT_FP32": dot_fp32,
    }


def _launch(
    query: torch.Tensor,
    cache: torch.Tensor,
    chunks: Chunks,
    options: AttentionOptions,
    addressing: Addressing,
    launch: PrefillLaunch,
    output: torch.Tensor,
) -> None:
    sequences, layout = chunks.sequences, chunks.sequences.layout
    table = sequences.table
    grid = (-(-chunks.max_count // launch.rows), query.shape[1], len(sequences))
    prefill_kernel[grid](
        query, cache, table, sequences.lengths, chunks.starts, output,
        options.score_factor, options.cap_factor, options.window or 0,
        layout.block_stride, layout.value_stride, layout.slot_stride, table.stride(0),
        query.shape[1], query.shape[1] // layout.num_kv_heads,
        **prefill_constants(
            layout.head_dim,
            layout.block_size,
            addressing,
            launch,
            has_window=options.window is not None,
            has_cap=options.softcap is not None,
            dot_fp32=interpreting() and query.dtype is torch.bfloat16,
        ),
        num_warps=launch.warps,
        num_stages=launch.stages,
    )  # fmt: skip
