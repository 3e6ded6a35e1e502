"""The rules that the simulator and the engine both have, as the options of either; and which are not comparable."""

from __future__ import annotations

from dataclasses import replace

from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import PAGED, ServingConfig

ALLOCATORS = (PAGED, "reservation", "exact-fit", *(f"exact-fit:{fit}" for fit in ("first", "best", "next", "worst")))
ACCEPTED = "paged, reservation, exact-fit[:first|best|next|worst]"
NO_MODEL = "none"  # the engine's scheduler alone


def engine_config(rules: ServingConfig, model: str = NO_MODEL, device: str = "cpu", **pool: int | None) -> EngineConfig:
    """The engine's options. `pool`: kv_bytes or memory as EngineConfig takes them, in place of the rules' blocks.

    Raises UsageError as `check_comparable` does, and ConfigError.
    """
    check_comparable(rules)
    return EngineConfig(
        model,
        device=device,
        cache=rules.allocator,
        block_size=rules.block_size,
        token_budget=rules.token_budget,
        max_num_seqs=rules.max_num_seqs,
        max_model_len=rules.max_model_len,
        prefix_caching=rules.prefix_caching,
        chunked_prefill=rules.chunked_prefill,
        long_prefill_threshold=rules.long_prefill_threshold or None,
        reserve_full_isl=rules.reserve_full_isl,
        watermark=rules.watermark,
        policy=rules.policy,
        **(pool or {"num_blocks": engine_blocks(rules)}),  # type: ignore[arg-type]
    )


def engine_blocks(rules: ServingConfig) -> int:
    """Blocks of the engine's pool: a paged one alone has the null block."""
    return rules.num_blocks if rules.allocator == PAGED else rules.usable_blocks


def over_engine_blocks(rules: ServingConfig, num_blocks: int) -> ServingConfig:
    """The rules over the pool of an engine that has so many blocks."""
    return replace(rules, num_blocks=num_blocks + (0 if rules.allocator == PAGED else 1))


def check_comparable(rules: ServingConfig) -> None:
    """Raise UsageError, with the reason, unless the engine does the same under these rules by its own definition."""
    contiguous = rules.allocator != PAGED
    for flag, value, same, why in (
        ("--allocator", rules.allocator, rules.allocator in ALLOCATORS, f"the engine has none; accepted: {ACCEPTED}"),
        ("--victim", rules.victim, rules.victim == "last", "the engine knows no other; accepted: last"),
        ("--evict", rules.evict, rules.evict == "lru", "the engine knows no other; accepted: lru"),
        ("--preempt", rules.preempt, rules.preempt == "recompute", "the engine has no swapping; accepted: recompute"),
        ("--prefix-match-unit", rules.prefix_match_unit, not rules.prefix_match_unit,
         "the engine matches whole blocks; accepted: 0"),
        ("--watermark", f"{rules.watermark:g}", not (contiguous and rules.watermark),
         f"with {rules.allocator} the engine counts it in runs and the simulator in blocks; accepted: 0"),
        ("--token-budget", rules.token_budget, rules.chunked_prefill or rules.token_budget >= rules.max_model_len,
         f"without chunked prefill the engine asks for --max-model-len; accepted: {rules.max_model_len} or more"),
        ("--token-budget", rules.token_budget, rules.fork == "none" or rules.token_budget >= rules.max_num_seqs,
         "with forks the simulator seats no more sequences than the budget has tokens, and the engine --max-num-seqs; "
         f"accepted: {rules.max_num_seqs} or more"),
    ):  # fmt: skip
        if not same:
            raise UsageError(f"{flag} {value} cannot be replayed: {why}")
