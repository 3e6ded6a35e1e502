"""The first sentence of a report: what each allocator refused, and which of the two kinds of waste it had."""

from __future__ import annotations

from pagesim.sim.result import AllocatorResult, RunResult
from pagesim.sim.setting import percent

FRACTIONS = {
    1 / 4: "a quarter", 1 / 3: "a third", 1 / 2: "half", 2 / 3: "two thirds", 3 / 4: "three quarters",
    9 / 10: "nine tenths",
}  # fmt: skip
NEAR = 0.025  # of a fraction: then it is called so
WORTH_SAYING = 0.02
MOST_NAMES = 4


def headline(result: RunResult) -> str:
    """A clause for each allocator, the first MOST_NAMES of them."""
    clauses = [_clause(name, a) for name, a in list(result.allocators.items())[:MOST_NAMES]]
    left_out = len(result.allocators) - len(clauses)
    return "; ".join(clauses) + (f"; {left_out} more are below." if left_out else ".")


def in_words(share: float) -> str:
    """0.74 -> three quarters (74.0%); 0.6 -> 60.0%."""
    near = min(FRACTIONS, key=lambda fraction: abs(fraction - share))
    return f"{FRACTIONS[near]} ({percent(share)})" if abs(near - share) <= NEAR else percent(share)


def _clause(name: str, a: AllocatorResult) -> str:
    empty = a.internal.mean / a.occupied.mean if a.occupied.mean else 0.0
    stood_empty = f"{in_words(empty)} of the memory it had given out could never be filled"
    if a.at_refusal is None:
        return f"{name} refused nothing" + (f", though {stood_empty}" if empty >= WORTH_SAYING else "")
    refused = f"{name} refused {percent(a.refused_share.mean)} of the requests"
    if empty >= WORTH_SAYING and a.internal.mean >= a.at_refusal.unusable_mean:
        return f"{refused} while {stood_empty} (internal waste)"
    if a.at_refusal.unusable_mean >= WORTH_SAYING:
        return (
            f"{refused} while {percent(a.at_refusal.unusable_mean)} of the pool lay free, in pieces too small "
            "(external waste)"
        )
    return f"{refused} with {percent(a.at_refusal.occupied_mean)} of the pool occupied"
