"""Which of our rules vLLM has, said so that what it lacks is refused by name."""

from __future__ import annotations

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import PAGED, ServingConfig


def check_rules(rules: ServingConfig) -> None:
    """Raise UsageError unless vLLM can be told these rules.

    What else vLLM refuses, `pagesim.validate.vllm.made` passes on in vLLM's own words.
    """
    for flag, value, same, accepted in (
        ("--allocator", rules.allocator, rules.allocator == PAGED, PAGED),
        ("--fork", rules.fork, rules.fork == "none", "none"),
        ("--victim", rules.victim, rules.victim == "last", "last"),
        ("--evict", rules.evict, rules.evict == "lru", "lru"),
        ("--preempt", rules.preempt, rules.preempt == "recompute", "recompute"),
        ("--prefix-match-unit", rules.prefix_match_unit, not rules.prefix_match_unit, "0"),
    ):
        if not same:
            raise UsageError(f"{flag} {value}: vLLM has no such rule; accepted: {accepted}")
