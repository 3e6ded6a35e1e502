"""Prefill attention in plain torch: the reference beside the Triton kernel, and the CPU backend of the engine.

It runs on any device: below compute capability 8.0 it is also what the card runs. It loops over chunks, not tokens.
"""

from __future__ import annotations

import torch

from pagesim.kernels.chunks import Chunks
from pagesim.kernels.cpu_attention import attend
from pagesim.kernels.layout import check_query, check_same_device
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.reference_checks import check_cache


def prefill_attention_cpu(
    query: torch.Tensor, cache: torch.Tensor, chunks: Chunks, options: AttentionOptions
) -> torch.Tensor:
    """Attention of packed chunks, `query` [T, heads, head_dim], each over its cached prefix and itself, causal.

    Returns [T, heads, head_dim]. Raises InputError if query, cache and chunks do not fit together.
    """
    layout = chunks.sequences.layout
    check_query(query, layout, chunks.num_tokens)
    check_cache(cache, layout)
    check_same_device(query=query, cache=cache, lengths=chunks.sequences.lengths)
    output = torch.empty_like(query)
    starts = chunks.host_starts.tolist()
    for sequence, length in enumerate(chunks.sequences.host_lengths.tolist()):
        rows = slice(starts[sequence], starts[sequence + 1])
        key, value = _read_sequence(cache, chunks, sequence, length)
        mask = _mask(length, rows.stop - rows.start, options.window, query)
        mixed = attend(query[rows].transpose(0, 1)[None], key, value, mask, options)
        output[rows] = mixed[0].transpose(0, 1)
    return output


def _read_sequence(
    cache: torch.Tensor, chunks: Chunks, sequence: int, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of one sequence, [1, KV, length, D] each."""
    layout = chunks.sequences.layout
    table = chunks.sequences.block_table
    if table is None:
        slots = cache[sequence, :, :length]
    else:
        blocks = cache.index_select(0, table[sequence, : -(-length // layout.block_size)])
        slots = blocks.transpose(0, 1).flatten(1, 2)[:, :length]
    heads = slots.view(2, 1, length, layout.num_kv_heads, layout.head_dim).transpose(2, 3)
    return heads[0], heads[1]


def _mask(length: int, count: int, window: int | None, like: torch.Tensor) -> torch.Tensor | None:
    """What hides from the last `count` queries the positions they do not see, [count, length]: 0 where one sees, else
    -inf. None where plain causal masking says it.
    """
    if count == length and window is None:
        return None
    seen_to = torch.arange(length - count, length, device=like.device)[:, None]
    position = torch.arange(length, device=like.device)[None, :]
    hidden = position > seen_to
    if window is not None:
        hidden |= position <= seen_to - window
    return torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))
