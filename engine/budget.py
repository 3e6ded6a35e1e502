"""How many blocks of cache there is memory for, and the account that says why.

On a card: what `utilization` of it leaves after the weights and the peak of one pass at the largest batch. On a CPU: a
number of bytes for the cache, or for everything together. Left out: memory that others take later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import MemoryBudgetError
from pagesim.engine.kv_cache import token_bytes
from pagesim.engine.models.weights import Weights

CPU_CACHE_BYTES = 2**30  # unless told otherwise: no machine that runs a model at all is short of it
FP64_BYTES = 8


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """Where memory goes, in bytes. `limit_bytes`: what all of it may take, where that is what was given.

    `copy_bytes`: of a tied head, where it is packed and so a second copy.
    """

    limit_bytes: int | None
    weights_bytes: int
    copy_bytes: int
    activation_bytes: int
    cache_bytes: int
    block_bytes: int
    num_blocks: int
    rule: str

    def lines(self) -> list[str]:
        """One line for each term."""
        limit = [] if self.limit_bytes is None else [f"limit        {_size(self.limit_bytes)}"]
        copy = f", and {_size(self.copy_bytes)} a packed copy of the tied head" if self.copy_bytes else ""
        return [
            *limit,
            f"weights      {_size(self.weights_bytes)}{copy}",
            f"activations  {_size(self.activation_bytes)} at the largest batch",
            f"cache        {_size(self.cache_bytes)}, {self.rule}",
            f"blocks       {self.num_blocks} of {_size(self.block_bytes)}",
        ]


def plan_memory(config: EngineConfig, weights: Weights, measure: Callable[[], int]) -> MemoryAccount:
    """The account of a start. `measure`: runs the largest batch on a card and returns its peak, in bytes.

    Raises MemoryBudgetError if weights and activations leave no room for a block.
    """
    block_bytes = config.block_size * token_bytes(weights)
    on_card = config.device != "cpu"
    activations = measure() if on_card else activation_bytes(config, weights)
    if config.num_blocks is not None:
        limit, cache, rule = None, config.num_blocks * block_bytes, "as num_blocks says"
    elif config.kv_bytes is not None:
        limit, cache, rule = None, config.kv_bytes, "as kv_bytes says"
    elif config.memory is None and not on_card:
        limit, cache, rule = None, CPU_CACHE_BYTES, "the default on a CPU"
    else:
        limit, rule = (config.memory, "what memory leaves") if config.memory is not None else _card_limit(config)
        cache = limit - weights.num_bytes - weights.copy_bytes - activations
    num_blocks = max(cache, 0) // block_bytes
    account = MemoryAccount(
        limit_bytes=limit,
        weights_bytes=weights.num_bytes,
        copy_bytes=weights.copy_bytes,
        activation_bytes=activations,
        cache_bytes=num_blocks * block_bytes,
        block_bytes=block_bytes,
        num_blocks=num_blocks,
        rule=rule,
    )
    if num_blocks < 1:
        short = f"{_size(max(cache, 0))} of cache, and a block takes {_size(block_bytes)}"
        raise MemoryBudgetError(f"there is room for {short} ({'; '.join(account.lines()[:-1])})")
    return account


def activation_bytes(config: EngineConfig, weights: Weights) -> int:
    """What the largest batch takes beside weights and cache, reckoned from its largest tensors, in bytes.

    Held at once, at the widest place of a layer: the residual stream and its norm, gate and up, and their product. At
    the end: the logits of every sequence, in the model's dtype and, to draw from, in fp64.
    """
    model, itemsize = weights.config, weights.embedding.itemsize
    width = 3 * model.hidden_size + max(3 * model.intermediate_size, 4 * (model.query_size + 2 * model.kv_size))
    rows = min(config.max_num_seqs, config.token_budget)
    layer = config.token_budget * width * itemsize
    return layer + rows * model.vocab_size * (itemsize + 2 * FP64_BYTES)


def _card_limit(config: EngineConfig) -> tuple[int, str]:
    total = torch.cuda.get_device_properties(torch.device(config.device)).total_memory
    return int(total * config.utilization), f"what {config.utilization:.0%} of the card leaves"


def _size(num_bytes: int) -> str:
    """Binary units, four digits at most before the point."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:,.2f} {unit}"
    return f"{num_bytes} B"
