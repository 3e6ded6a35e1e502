"""What our decode is measured against: torch's SDPA on contiguous K and V; FlashInfer, FlashAttention if installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional

from pagesim.kernels.bench_inputs import Inputs

Run = Callable[[], object]
WORKSPACE_BYTES = 128 * 1024 * 1024
FLASHINFER_GROUP = 4


def torch_sdpa(inputs: Inputs) -> Run:
    """SDPA over [S, KV, L, D] views of the contiguous twin; no mask, since all lengths are equal."""
    query = inputs.query[:, :, None]
    key, value = (x.transpose(1, 2) for x in _contiguous(inputs))
    scale = inputs.options.scale
    return lambda: torch.nn.functional.scaled_dot_product_attention(
        query, key, value, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )


def flash_attention(inputs: Inputs) -> Run:
    """FlashAttention's decode over the contiguous twin: its paged form asks for blocks that are multiples of 256."""
    kernel: Any = importlib.import_module("flash_attn").flash_attn_with_kvcache
    query = inputs.query[:, None]
    key, value = _contiguous(inputs)
    lengths, scale = inputs.sequences.lengths, inputs.options.scale
    return lambda: kernel(query, key, value, cache_seqlens=lengths, softmax_scale=scale)


def flash_infer(inputs: Inputs) -> Run:
    """FlashInfer's paged decode on our very cache, which has the shape it calls NHD.

    On tensor cores from four query heads to a KV head on, as serving engines ask for it: its other kernel takes groups
    of 1, 2, 3, 4 and 8 alone.
    """
    flashinfer: Any = importlib.import_module("flashinfer")
    case, heads, device = inputs.case, inputs.case.heads, inputs.query.device
    table = inputs.sequences.table
    assert table is not None
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
    grouped = heads.num_heads // heads.num_kv_heads >= FLASHINFER_GROUP
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=grouped)
    starts = torch.arange(case.batch + 1, dtype=torch.int32, device=device) * case.blocks_per_sequence
    tail = case.context_tokens - (case.blocks_per_sequence - 1) * case.block_size
    wrapper.plan(
        starts,
        table.flatten(),
        torch.full((case.batch,), tail, dtype=torch.int32, device=device),
        heads.num_heads,
        heads.num_kv_heads,
        heads.head_dim,
        case.block_size,
        q_data_type=inputs.query.dtype,
        kv_data_type=inputs.cache.dtype,
        sm_scale=inputs.options.scale,
    )
    cache = inputs.cache.view(-1, 2, case.block_size, heads.num_kv_heads, heads.head_dim)
    return lambda: wrapper.run(inputs.query, cache)


PEERS: dict[str, tuple[str, Callable[[Inputs], Run]]] = {
    "torch SDPA, contiguous": ("torch", torch_sdpa),
    "FlashAttention, contiguous": ("flash_attn", flash_attention),
    "FlashInfer, paged": ("flashinfer", flash_infer),
}


def installed() -> dict[str, Callable[[Inputs], Run]]:
    """The competitors that can be imported here."""
    return {name: run for name, (module, run) in PEERS.items() if find_spec(module) is not None}


def _contiguous(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of the twin, [S, L, KV, D] views."""
    heads = inputs.case.heads
    tokens = inputs.twin[:, :, : inputs.case.context_tokens]
    split = tokens.view(*tokens.shape[:3], heads.num_kv_heads, heads.head_dim)
    return split[:, 0], split[:, 1]
