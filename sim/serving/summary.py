"""A run in which requests wait, in plain words: a sentence for each allocator, and what a reader must know first."""

from __future__ import annotations

from pagesim.sim.serving.result import AllocatorResult, ServingResult
from pagesim.sim.serving.run_table import legend, rows, seconds
from pagesim.sim.setting import percent
from pagesim.sim.shown import Shown

WORTH_SAYING = 0.01
LIMIT = {
    "no blocks": "memory",
    "max_num_seqs": "a place in the batch (--max-num-seqs)",
    "token budget": "the token budget (--token-budget)",
    "preemption": "preemptions to end",
}


def shown(result: ServingResult) -> Shown:
    """All that is said of a run in which requests wait."""
    return Shown(warning(result), rows(result), sentences(result), None, legend(result))


def sentences(result: ServingResult) -> list[str]:
    """What it shows: one sentence for each allocator."""
    return [_sentence(name, allocator) for name, allocator in result.allocators.items()]


def warning(result: ServingResult) -> str | None:
    """What a reader must know first: requests left out, or a limit that has nothing to do with memory."""
    each, rules = result.allocators.values(), result.config["queue"]["rules"]
    rejected = max(a.rejected for a in each)
    if rejected:
        return (
            f"{rejected:,} of {next(iter(each)).requests:,} requests can never be served, by one allocator or all, and "
            f"were rejected: they have no latency. The limit is {result.config['max_model_len']:,} tokens "
            f"(--max-model-len) or the pool; the longest request has {result.trace.longest_tokens:,}."
        )
    if all(a.waited["no blocks"].share.mean < WORTH_SAYING <= a.waited["max_num_seqs"].share.mean for a in each):
        return (
            f"Nobody waited for memory: at most {rules['max_num_seqs']:,} sequences run at once (--max-num-seqs), and "
            "the pool holds them whoever divides it."
        )
    return None


def _sentence(name: str, a: AllocatorResult) -> str:
    if a.ttft_s.p50 is None or a.ttft_s.p99 is None:
        return f"{name} served nothing."
    parts = [
        f"{name} ran {a.running_mean.mean:,.0f} requests at once in the mean and made "
        f"{a.output_tokens_per_s.mean:,.0f} tokens/s; half of the requests had their first token after "
        f"{seconds(a.ttft_s.p50.mean)}, one in a hundred only after {seconds(a.ttft_s.p99.mean)}"
    ]
    reason, waited = max(a.waited.items(), key=lambda pair: pair[1].share.mean)
    if waited.share.mean >= WORTH_SAYING:
        parts.append(f"somebody waited for {LIMIT[reason]} {percent(waited.share.mean)} of the time")
    empty = a.reserved.mean + a.internal.mean
    if empty >= WORTH_SAYING:
        parts.append(f"{percent(empty)} of the pool was owned and empty")
    if a.unusable.mean >= WORTH_SAYING:
        parts.append(f"{percent(a.unusable.mean)} lay free in pieces while the head of the queue asked for less")
    if a.preemptions:
        parts.append(
            f"it put requests back {a.preemptions:,} times and computed {a.recomputed_tokens:,} tokens again, which "
            f"took {percent(a.recomputing_s.mean / a.span_s.mean)} of the time"
        )
    return "; ".join(parts) + "."
