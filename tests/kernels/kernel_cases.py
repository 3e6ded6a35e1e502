"""Batches to test kernels on, and the answer in float64: numpy, one sequence at a time, no blocks, no tiles.

Every slot of the pool that no sequence owns is NaN, block tables are shuffled, and table entries past a sequence's last
block point at a block of NaN: a kernel that reads what it must not read returns NaN. In the contiguous cache the
sequences lie in rows in reverse order, each a few slots into its row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pagesim.kernels.chunks import Chunks
from pagesim.kernels.layout import layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences

TWIN_OFFSET = 3  # slots of a row of the contiguous cache that lie before its sequence
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Case:
    """`keys`, `values`: per sequence [length, KV, D]. `query`: [rows, H, D]. `counts`: rows of each sequence."""

    query: torch.Tensor
    cache: torch.Tensor
    twin: torch.Tensor
    sequences: Sequences
    twin_sequences: Sequences
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    counts: list[int]

    @property
    def chunks(self) -> Chunks:
        return Chunks.of(self.sequences, self.counts)

    @property
    def twin_chunks(self) -> Chunks:
        return Chunks.of(self.twin_sequences, self.counts)


def make_case(
    lengths: list[int],
    *,
    counts: list[int] | None = None,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 64,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    seed: int = 0,
    values_near: float | None = None,
) -> Case:
    """`values_near`: values a tenth of unit scale about a number, whose sums grow with the length."""
    random = torch.Generator().manual_seed(seed)
    counts = counts if counts is not None else [1] * len(lengths)
    width = kv_heads * head_dim
    num_blocks = [-(-length // block_size) for length in lengths]
    pool = sum(num_blocks) + 3
    order = torch.randperm(pool, generator=random)
    unused = int(order[-1])
    table = torch.full((len(lengths), max([*num_blocks, 0]) + 2), unused, dtype=torch.int32)
    cache = torch.full((pool, 2, block_size, width), float("nan"), dtype=dtype)
    reserved = max([*lengths, 1]) + 5
    twin = torch.full((max(len(lengths), 1), 2, reserved, width), float("nan"), dtype=dtype)
    rows = list(reversed(range(len(lengths))))
    keys, values, taken = [], [], 0
    for row, length in enumerate(lengths):
        table[row, : num_blocks[row]] = order[taken : taken + num_blocks[row]].int()
        taken += num_blocks[row]
        key, value = torch.randn(2, length, width, generator=random)
        key, value = key.to(dtype), (value if values_near is None else values_near + 0.1 * value).to(dtype)
        position = torch.arange(length)
        block = table[row, position // block_size].long()
        cache[block, 0, position % block_size] = key
        cache[block, 1, position % block_size] = value
        twin[rows[row], 0, TWIN_OFFSET : TWIN_OFFSET + length] = key
        twin[rows[row], 1, TWIN_OFFSET : TWIN_OFFSET + length] = value
        keys.append(key.view(length, kv_heads, head_dim))
        values.append(value.view(length, kv_heads, head_dim))
    query = torch.randn(sum(counts), heads, head_dim, generator=random).to(dtype).to(device)
    cache, twin = cache.to(device), twin.to(device)
    sequences = Sequences.paged(table, lengths, layout_of(cache, kv_heads), device)
    first_slots = torch.tensor(rows, dtype=torch.int64) * reserved + TWIN_OFFSET
    twin_sequences = Sequences.contiguous(lengths, layout_of(twin, kv_heads), device, first_slots=first_slots)
    return Case(query, cache, twin, sequences, twin_sequences, keys, values, counts)


def exact(case: Case, options: AttentionOptions) -> torch.Tensor:
    """[rows, H, D] float64: plain softmax attention of each row over what it sees, causal."""
    query = case.query.double().cpu().numpy()
    group = query.shape[1] // case.keys[0].shape[1] if case.keys else 1
    output = np.zeros(query.shape)
    row = 0
    for key, value, count in zip(case.keys, case.values, case.counts, strict=True):
        keys = np.repeat(key.double().numpy(), group, axis=1)
        values = np.repeat(value.double().numpy(), group, axis=1)
        for position in range(len(keys) - count, len(keys)):
            first = max(0, position + 1 - options.window) if options.window else 0
            scores = options.scale * np.einsum("hd,phd->hp", query[row], keys[first : position + 1])
            if options.softcap:
                scores = options.softcap * np.tanh(scores / options.softcap)
            weights = np.exp(scores - scores.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            output[row] = np.einsum("hp,phd->hd", weights, values[first : position + 1])
            row += 1
    return torch.from_numpy(output)


def worst(output: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest absolute difference; infinite if anything is NaN."""
    if not output.numel():
        return 0.0
    difference = (output.double().cpu() - expected).abs().max().item()
    return difference if difference == difference else float("inf")
