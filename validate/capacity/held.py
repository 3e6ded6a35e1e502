"""How many sequences of one length a cache manager of the engine takes in at once, each slot it gives out looked at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagesim.engine.cache_manager import CacheManager, make_cache
from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import MemoryBudgetError
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.sequence import Sequence
from pagesim.validate.capacity.seen import Held
from pagesim.validate.slots import owned_slots

KINDS = ("paged", "reservation", "exact-fit")


def hold(config: EngineConfig, num_blocks: int, max_model_len: int, kind: str, tokens: int) -> Held:
    """Fill an empty cache of the engine's own size, empty it, fill it again: the second time must be as the first."""
    try:
        cache = make_cache(replace(config, cache=kind), num_blocks, max_model_len)
    except MemoryBudgetError:  # it holds not even one reservation
        return Held(kind, tokens, 0, ())
    findings: list[str] = []
    counts = []
    for turn in ("", " again"):
        sequences = _fill(cache, tokens)
        counts.append(len(sequences))
        findings += [f"{kind}, {tokens} tokens, filled{turn}: {line}" for line in _audit(cache, sequences, tokens)]
        for sequence in sequences:
            cache.free(sequence)
        if cache.blocks_used:
            findings.append(f"{kind}, {tokens} tokens: {cache.blocks_used} blocks are still held by nobody")
    if counts[0] != counts[1]:
        findings.append(f"{kind}, {tokens} tokens: {counts[0]} the first time, {counts[1]} once they were gone")
    return Held(kind, tokens, counts[0], tuple(findings))


def _fill(cache: CacheManager, tokens: int) -> list[Sequence]:
    """Sequences that are let in one after the other, until one is not."""
    sequences: list[Sequence] = []
    for number in range(cache.num_rows * cache.row_tokens + 1):
        sequence = Sequence(str(number), [0] * tokens, SamplingParams(max_tokens=1))
        if not cache.admit(sequence, [], tokens, tokens, 0):
            break
        sequence.num_computed = tokens
        sequences.append(sequence)
    return sequences


def _audit(cache: CacheManager, sequences: list[Sequence], tokens: int) -> list[str]:
    """Every slot belongs to one sequence, lies in the tensor, and is not in the null block."""
    owners = np.zeros(cache.num_rows * cache.row_tokens, dtype=np.int64)
    found = []
    for sequence in sequences:
        slots = owned_slots(cache, sequence)[:tokens]
        inside = slots[(slots >= 0) & (slots < len(owners))]
        np.add.at(owners, inside, 1)
        if len(inside) != tokens:
            found.append(f"sequence {sequence.id} has {len(inside)} slots in the pool, for {tokens} tokens")
    shared = int((owners > 1).sum())
    if shared:
        found.append(f"{shared} slots were given to several sequences")
    if cache.is_paged and owners[: cache.block_size].any():
        found.append("slots of the null block were given out")
    try:
        cache.check()
    except AssertionError as error:
        found.append(str(error).partition("\n")[0][:200])
    return found
