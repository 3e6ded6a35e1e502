"""A run in plain words: one sentence for each allocator with its numbers in it, and what a reader must know first."""

from __future__ import annotations

from pagesim.sim.measures import AtRefusal
from pagesim.sim.result import AllocatorResult, RunResult
from pagesim.sim.setting import percent
from pagesim.sim.stats import Interval

WORTH_SAYING = 0.01  # of the pool
NEARLY_ALL = 0.95
FULL = 0.995
LONG_ONES = 2  # times the share of requests: then it is the long ones that are refused


def with_interval(value: Interval) -> str:
    """12.3% ± 0.4, half the width of the 95% interval in percentage points; without one for a single run."""
    return percent(value.mean) + ("" if value.half is None else f" ± {100 * value.half:.1f}")


def sentences(result: RunResult) -> list[str]:
    """What it shows: one sentence for each allocator."""
    return [_sentence(name, allocator, result) for name, allocator in result.allocators.items()]


def warning(result: RunResult) -> str | None:
    """What a reader must know first: that requests were left out; None if none were."""
    rejected = max(a.rejected_share.mean for a in result.allocators.values())
    if rejected == 0:
        if result.trace.samples == result.trace.requests:
            return None
        return "This experiment places prompts: the n answers of one count as one. --on-full queue serves them all."
    return (
        f"{percent(rejected)} of the requests can never be served and were rejected: they are in no other figure, nor "
        f"in the load. The limit is {result.config['max_model_len']:,} tokens (--max-model-len); the longest request "
        f"has {result.trace.longest_tokens:,}."
    )


def readings(result: RunResult) -> str | None:
    """How to read "occupied", which depends on when one looks; None if nothing was refused."""
    each = [
        f"{name} {percent(a.occupied.mean)}, {percent(a.steady_occupied.mean)}, {percent(a.at_refusal.occupied_mean)}"
        for name, a in result.allocators.items()
        if a.at_refusal is not None
    ]
    if not each:
        return None
    filling = "after the warm-up" if result.config["warmup"] else "the filling of the empty pool included"
    return (
        f"Occupied has three readings: the mean over time, {filling}; the mean over the last half of the time; and at "
        f"the moments of refusal: {'; '.join(each)}."
    )


def _sentence(name: str, a: AllocatorResult, result: RunResult) -> str:
    empty = a.reserved.mean + a.internal.mean
    owned_and_empty = f"{percent(empty)} of the pool was owned and empty" if empty >= WORTH_SAYING else None
    full_of_tokens = a.used.mean >= NEARLY_ALL * a.occupied.mean
    parts = []
    if a.at_refusal is None:
        parts.append(f"{name} refused nothing, and occupied {percent(a.occupied.mean)} of the pool in the mean")
    else:
        refused = f"{name} refused {percent(a.refused_share.mean)} of the requests"
        if a.refused_token_share.mean > LONG_ONES * a.refused_share.mean:
            refused += f", mostly long ones ({percent(a.refused_token_share.mean)} of the tokens),"
        parts.append(f"{refused} {_why(a.at_refusal, result.pool.tokens, full_of_tokens)}")
    if owned_and_empty:
        parts.append(owned_and_empty)
    if a.dropped:
        parts.append(f"it ended {percent(a.dropped_share.mean)} of the requests early to make room for older ones")
    if a.moved_tokens:
        moved_gib = a.moved_tokens * result.pool.bytes_per_token / 2**30
        parts.append(f"it moved {a.moved_tokens:,} tokens, {moved_gib:,.0f} GiB, to compact, in all runs together")
    return "; ".join(parts) + "."


def _why(at: AtRefusal, pool_tokens: int, full_of_tokens: bool) -> str:
    """Was the pool full, or merely awkward?"""
    occupied = percent(at.occupied_mean)
    if at.unusable_mean < WORTH_SAYING:
        if at.occupied_mean < FULL:
            return f"when {occupied} of the pool was occupied: less was free than was asked"
        return f"when {occupied} of the pool was occupied" + (": it was full" if full_of_tokens else "")
    largest, asked = at.largest_free_run_mean * pool_tokens, at.asked_mean * pool_tokens
    if largest >= asked:
        return f"when {occupied} of the pool was occupied: the rest was free, but less than it gives to any request"
    return (
        f"when {occupied} of the pool was occupied: the rest was free, but in pieces, the largest of {largest:,.0f} "
        f"tokens in the mean where {asked:,.0f} were asked"
    )
