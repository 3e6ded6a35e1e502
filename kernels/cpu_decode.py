"""Decode attention in plain torch: the reference beside the Triton kernel, and the CPU backend of the engine.

It takes any block size. Nothing loops over tokens: a batch is a few groups (`cpu_gather`), each a gather and an SDPA.
"""

from __future__ import annotations

import torch

from pagesim.kernels.cpu_attention import attend
from pagesim.kernels.cpu_gather import Gather, read
from pagesim.kernels.layout import CacheLayout, check_query, check_same_device
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.reference_checks import check_cache
from pagesim.kernels.sequences import Sequences


def decode_attention_cpu(
    query: torch.Tensor, cache: torch.Tensor, sequences: Sequences, options: AttentionOptions
) -> torch.Tensor:
    """Attention of `query`, [S, heads, head_dim], over `cache`, [blocks, 2, block_size, kv_heads * head_dim].

    Returns [S, heads, head_dim]. Raises InputError if the three do not fit together.
    """
    check_query(query, sequences.layout, len(sequences))
    check_cache(cache, sequences.layout)
    check_same_device(query=query, cache=cache, lengths=sequences.lengths)
    gathers = sequences.gathers
    rows = query if gathers.order is None else query[gathers.order]
    groups = [_attend_group(rows[each.rows], cache, each, sequences.layout, options) for each in gathers.groups]
    if not groups:
        return torch.empty_like(query)
    output = torch.cat(groups) if len(groups) > 1 else groups[0]
    return output if gathers.inverse is None else output[gathers.inverse]


def _attend_group(
    query: torch.Tensor, cache: torch.Tensor, gather: Gather, layout: CacheLayout, options: AttentionOptions
) -> torch.Tensor:
    """`query`: [n, heads, head_dim]. Heads that share a KV head become rows of one product, twice as fast as GQA's."""
    num_sequences, num_heads, head_dim = query.shape
    key, value = read(cache, gather, layout)
    mask = gather.mask(options.window, query.dtype)
    rows = query.view(num_sequences, layout.num_kv_heads, num_heads // layout.num_kv_heads, head_dim)
    return attend(rows, key, value, mask, options).reshape(num_sequences, num_heads, head_dim)
