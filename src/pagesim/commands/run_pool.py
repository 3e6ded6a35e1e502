"""The pool that the options of `pagesim run` describe."""

from __future__ import annotations

from collections.abc import Mapping

from pagesim.sim.config import PoolConfig
from pagesim.sim.errors import UsageError


def run_pool(
    pool_tokens: int | None,
    num_blocks: int | None,
    model: str | None,
    device: str | None,
    utilization: float | None,
    tp: int | None,
    block_size: int,
    limits: Mapping[str, int | None],
) -> PoolConfig:
    """One of token slots, blocks, or what a card leaves beside a model; the note's pool if nothing is said.

    A model beside slots or blocks says what a token costs. `limits`: max_num_batched_tokens and max_num_seqs where they
    were said, for the activations that the card must hold. Raises UsageError or GeometryError.
    """
    from pagesim.sim.budget import BudgetOptions
    from pagesim.sim.pool import NOTE_POOL
    from pagesim.sim.poolplan import PoolOptions, pool_from

    deciding = {"--pool-tokens": pool_tokens, "--num-blocks": num_blocks, "--device": device}
    said = [name for name, value in deciding.items() if value is not None]
    if len(said) > 1:
        raise UsageError(f"the pool is decided by {' and '.join(said)}; accepted: one of {', '.join(deciding)}")
    for name, value in (("--pool-tokens", pool_tokens), ("--num-blocks", num_blocks), ("--block-size", block_size)):
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}; accepted: 1 or more")
    if utilization is not None and device is None:
        raise UsageError("--utilization is of a card; accepted: together with --device")
    if tp is not None and model is None:
        raise UsageError("--tp is of a model's cache; accepted: together with --model")
    if not said:
        if model is not None:
            raise UsageError("--model without a pool; accepted: with --device, --num-blocks or --pool-tokens")
        return PoolConfig(block_size=block_size)
    if device is not None:
        if model is None:
            raise UsageError("--device without --model; accepted: both, to know what a token costs")
        share = {} if utilization is None else {"utilization": utilization}
        budget = BudgetOptions(**share, **limits)  # type: ignore[arg-type]
        pool = pool_from(PoolOptions(model=model, device=device, block_size=block_size, tp=tp or 1, budget=budget))
        cards = f"{tp} x {device}, a token's bytes on each," if tp else device
        origin = f"{cards} at {budget.utilization:.0%} beside {model}"
        return PoolConfig(pool.pool_tokens, block_size, pool.bytes_per_token, origin)
    tokens = pool_tokens if pool_tokens is not None else (num_blocks or 0) * block_size
    if model is None:
        return PoolConfig(
            tokens, block_size, NOTE_POOL.bytes_per_token, "as given; bytes a token of the reference setup"
        )
    bytes_per_token = pool_from(
        PoolOptions(model=model, num_blocks=2, block_size=block_size, tp=tp or 1)
    ).bytes_per_token
    return PoolConfig(tokens, block_size, bytes_per_token, f"as given; bytes a token are {model}'s")
