"""A run in which requests wait, in plain words: a sentence for each allocator, and what a reader must know first."""

from __future__ import annotations

from pagesim.sim.headline import MOST_NAMES, in_words
from pagesim.sim.serving.result import AllocatorResult, ServingResult
from pagesim.sim.serving.run_table import legend, rows, seconds
from pagesim.sim.setting import counted, percent
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
    return Shown(headline(result), warning(result), rows(result), sentences(result), None, legend(result))


def headline(result: ServingResult) -> str:
    """The wait for the first token, and what it was for: a clause for each allocator, the first MOST_NAMES of them."""
    clauses = [_clause(name, allocator) for name, allocator in list(result.allocators.items())[:MOST_NAMES]]
    left_out = len(result.allocators) - len(clauses)
    return "; ".join(clauses) + (f"; {left_out} more are below." if left_out else ".")


def _clause(name: str, a: AllocatorResult) -> str:
    if a.ttft_s.p50 is None:
        return f"{name} served nothing"
    empty = a.reserved.mean + a.internal.mean
    owned = f" while {in_words(empty)} of the pool was owned and empty" if empty >= WORTH_SAYING else ""
    back = f", and requests were put back {counted(a.preemptions, 'time')}" if a.preemptions else ""
    return (
        f"{name}: half of the requests waited {seconds(a.ttft_s.p50.mean)} or more for their first token{owned}{back}"
    )


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
    if rules["prefix_caching"] and not any(sum(a.prefix.values()) > _asked(a) for a in each):
        return (
            "Prefix caching found nothing. Requests that are drawn have no text in common, nor have those of a trace "
            "without hash_ids, but for the answers of one prompt and what comes back after a preemption."
        )
    if all(a.waited["no blocks"].share.mean < WORTH_SAYING <= a.waited["max_num_seqs"].share.mean for a in each):
        return (
            f"Nobody waited for memory, only for a place in the batch: at most {rules['max_num_seqs']:,} sequences run "
            "at once (--max-num-seqs)."
        )
    return None


def _asked(a: AllocatorResult) -> int:
    return a.prefix["prefix_queries_first"] + a.prefix["prefix_queries_return"]


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
    else:
        parts.append("nobody waited for memory, a place or the budget")
    empty = a.reserved.mean + a.internal.mean
    if empty >= WORTH_SAYING:
        parts.append(f"{percent(empty)} of the pool was owned and empty")
    if a.unusable.mean >= WORTH_SAYING:
        parts.append(
            f"{percent(a.unusable.mean)} was free, and in total enough for the head of the queue, which had to wait"
        )
    if a.preemptions:
        again = (
            f" and computed {a.recomputed_tokens:,} tokens again, which took "
            f"{percent(a.recomputing_s.mean / a.span_s.mean)} of the time"
        )
        parts.append(f"it put requests back {counted(a.preemptions, 'time')}{again if a.recomputed_tokens else ''}")
    return "; ".join(parts) + "."
