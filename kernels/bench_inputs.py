"""The tensors of one bench case: a pool with shuffled blocks, its contiguous twin, and queries, on one device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagesim.kernels.bench_cases import Case
from pagesim.kernels.layout import layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True, slots=True)
class Inputs:
    """`twin` holds the same K and V as `cache`: [S, 2, blocks * block_size, KV * D], one row per sequence."""

    case: Case
    query: torch.Tensor
    cache: torch.Tensor
    sequences: Sequences
    twin: torch.Tensor
    twin_sequences: Sequences
    options: AttentionOptions


def make_inputs(case: Case, device: torch.device, seed: int) -> Inputs:
    """Random K, V and queries; the block table is a random permutation of the pool."""
    heads = case.heads
    dtype = DTYPES[heads.dtype]
    random = torch.Generator(device).manual_seed(seed)
    num_blocks = case.batch * case.blocks_per_sequence
    width = heads.num_kv_heads * heads.head_dim
    cache = torch.empty(num_blocks, 2, case.block_size, width, dtype=dtype, device=device)
    cache.normal_(generator=random)
    query = torch.randn(case.batch, heads.num_heads, heads.head_dim, generator=random, device=device).to(dtype)
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(seed))
    table = order.view(case.batch, case.blocks_per_sequence)
    lengths = [case.context_tokens] * case.batch
    rows = cache.index_select(0, order.to(device)).view(case.batch, case.blocks_per_sequence, 2, case.block_size, width)
    twin = rows.transpose(1, 2).reshape(case.batch, 2, case.blocks_per_sequence * case.block_size, width)
    return Inputs(
        case,
        query,
        cache,
        Sequences.paged(table, lengths, layout_of(cache, heads.num_kv_heads), device),
        twin,
        Sequences.contiguous(lengths, layout_of(twin, heads.num_kv_heads), device),
        AttentionOptions(heads.head_dim**-0.5),
    )
