"""The largest batch there can be, to see what it takes: `token_budget` tokens of prefill, every sequence sampling."""

from __future__ import annotations

from dataclasses import replace

import torch

from pagesim.engine.batch import make_batch
from pagesim.engine.config import EngineConfig
from pagesim.engine.decoder import Decoder
from pagesim.engine.kv_cache import KvCache
from pagesim.engine.models.weights import Weights
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Chunk
from pagesim.kernels.backends import Backend


def peak_bytes(config: EngineConfig, weights: Weights, backend: Backend) -> int:
    """Run the largest batch on a card, over a cache of its own, and return what it took beside that, in bytes."""
    device = weights.embedding.device
    num_blocks = -(-config.token_budget // config.block_size)
    cache = KvCache.allocate(weights, num_blocks, config.block_size)
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
    """The logits, [rows, vocab], of one pass over the largest batch, in the first blocks of `cache`.

    It is one prefill of `token_budget` tokens, with as many rows as can sample in a step.
    """
    num_tokens, device = config.token_budget, weights.embedding.device
    sequence = Sequence("largest", [0] * num_tokens, SamplingParams())
    sequence.block_table = list(range(-(-num_tokens // config.block_size)))
    packed = make_batch([Chunk(sequence, 0, num_tokens, samples=True)], cache.layout, device).packed
    rows = torch.arange(min(config.max_num_seqs, num_tokens), device=device)
    return Decoder(weights, num_tokens, cache, backend).logits(replace(packed, rows=rows))
