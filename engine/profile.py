"""The largest batch there can be, to see what it takes: `token_budget` tokens of prefill, every sequence sampling."""

from __future__ import annotations

import torch

from pagesim.engine.attention import Attention, Backend
from pagesim.engine.batch import Batch
from pagesim.engine.config import EngineConfig
from pagesim.engine.decoder import Decoder
from pagesim.engine.kv_cache import KvCache
from pagesim.engine.weights import Weights
from pagesim.kernels.chunks import Chunks
from pagesim.kernels.layout import CacheLayout
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots


def peak_bytes(config: EngineConfig, weights: Weights, backend: Backend) -> int:
    """Run the largest batch on a card, over a cache of its own, and return what it took beside that, in bytes."""
    device = weights.embedding.device
    num_blocks = -(-config.token_budget // config.block_size)
    cache = KvCache.allocate(weights.config, num_blocks, config.block_size, weights.embedding.dtype, device)
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run_largest(config, weights, backend, cache)
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del cache
    torch.cuda.empty_cache()
    return peak


@torch.inference_mode()
def run_largest(config: EngineConfig, weights: Weights, backend: Backend, cache: KvCache) -> torch.Tensor:
    """The logits, [rows, vocab], of one pass over the largest batch."""
    decoder = Decoder(weights, config.token_budget, Attention(backend, cache, weights.config))
    return decoder.logits(largest_batch(config, cache.layout, weights.embedding.device))


def largest_batch(config: EngineConfig, layout: CacheLayout, device: torch.device) -> Batch:
    """One prefill of `token_budget` tokens in the first blocks of the cache; as many rows as can sample in a step."""
    num_tokens = config.token_budget
    positions = torch.arange(num_tokens)
    table = torch.arange(-(-num_tokens // config.block_size))[None]
    sequences = Sequences.paged(table, [num_tokens], layout, device)
    return Batch(
        token_ids=torch.zeros(num_tokens, dtype=torch.int64, device=device),
        positions=positions.to(device),
        slots=Slots.of(positions, layout, device),
        decodes=None,
        prefills=Chunks.of(sequences, [num_tokens]),
        rows=positions[: min(config.max_num_seqs, num_tokens)].to(device),
        samplers=(),
    )
