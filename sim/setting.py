"""What was run, in words: a line for each of load, requests, pool, lengths and whatever decides what became of them."""

from __future__ import annotations

from typing import Any

from pagesim.sim.config import PER_SECOND
from pagesim.sim.facts import PoolFacts, TraceFacts
from pagesim.sim.sizes import format_bytes
from pagesim.sim.workload import PRESETS


def percent(value: float) -> str:
    """0.1234 -> 12.3%."""
    return f"{100 * value:.1f}%"


def counted(count: int, noun: str) -> str:
    """1 request; 2,000 requests."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def setting(config: dict[str, Any], pool: PoolFacts, trace: TraceFacts) -> dict[str, str]:
    """The lines of a result's `config`, `pool` and `trace`."""
    count = len(trace.replications)
    replications = f"{f' in each of {count} replications' if count > 1 else ''}, seed {config['seed']}"
    samples = f", {trace.samples:,} answers" if trace.samples != trace.requests else ""
    requests = f"{counted(trace.requests, 'request')}{samples}"
    lines = {
        "load": _load(config, trace),
        "requests": requests + (replications if config["trace"] is None else f" of {config['trace']}"),
        "pool": f"{pool.tokens:,} tokens, {pool.num_blocks:,} blocks of {pool.block_size}; "
        f"{pool.bytes_per_token:,} B a token, {format_bytes(pool.tokens * pool.bytes_per_token)} ({pool.origin})",
        "context": f"{config['max_model_len']:,} tokens: room for {counted(pool.reservations, 'reservation')}",
        "lengths": trace.lengths,
    }
    lines |= _residence(config, trace) if config["queue"] is None else _serving(config["queue"], trace)
    if config["warmup"]:
        lines["warm-up"] = f"the first {percent(config['warmup'])} of the time is in no figure"
    return lines


def _load(config: dict[str, Any], trace: TraceFacts) -> str:
    name, rate_per_s, queue = config["load"], trace.rate_per_s, config["queue"]
    unit = "of the pool in tokens" if queue is None else "times what a batch that is full finishes"
    if name is None or rate_per_s is None or name.endswith(PER_SECOND):
        rate = "the trace's own times" if name is None else f"{rate_per_s:,.6g} requests/s"
        return rate if trace.offered_load is None else f"{rate}: {trace.offered_load:,.3g} {unit}"
    words = f"{name} = {PRESETS[name].erlangs:g}" if name in PRESETS else f"{float(name):g}"
    if name in PRESETS and PRESETS[name].per == "slot":
        unit = "erlangs a reservation" if queue is None else "times what a batch that is full of reservations finishes"
    arrivals = "the trace's times scaled" if config["trace"] else config["workload"]["arrivals"]
    return f"{words} {unit}: {rate_per_s:,.6g} requests/s, {arrivals}"


def _residence(config: dict[str, Any], trace: TraceFacts) -> dict[str, str]:
    mean = f"mean {trace.mean_residence_s:,.4g} s"
    growth = {"final": "all tokens count from admission", "token": "the prompt at once, then a token at a time"}
    how = "proportional to the total length"
    if config["residence"] != "total":
        how = f"output tokens at {config['decode_rate']:g} a second (--decode-rate; --on-full queue has step times)"
    return {"residence": f"{how}, {mean}; {growth[config['growth']]}"}


def _serving(queue: dict[str, Any], trace: TraceFacts) -> dict[str, str]:
    rules = queue["rules"]
    chosen = [
        f"{rules['token_budget']:,} tokens a step, {rules['max_num_seqs']:,} sequences at once",
        "prompts in chunks" if rules["chunked_prefill"] else "prompts whole",
        f"{rules['policy']}, {rules['victim']} goes first" if rules["policy"] == "fcfs" else rules["policy"],
        "prefix caching" if rules["prefix_caching"] else "no prefix caching",
    ]
    if rules["long_prefill_threshold"]:
        chosen.append(f"at most {rules['long_prefill_threshold']:,} tokens of a prompt a step")
    if not rules["reserve_full_isl"]:
        chosen.append("admission by the first chunk")
    if rules["watermark"]:
        chosen.append(f"watermark {percent(rules['watermark'])}")
    if rules["preempt"] == "swap":
        chosen.append(
            f"swapping to {rules['host_blocks']:,} blocks of the host at "
            f"{rules['host_bandwidth_bytes_per_s'] / 1e9:g} GB/s"
        )
    if rules["fork"] == "cow":
        chosen.append("samples forked, copy on write")
    if rules["prefix_match_unit"]:
        chosen.append(f"matches to {rules['prefix_match_unit']} tokens")
    if rules["evict"] != "lru":
        chosen.append(f"evict {rules['evict']}")
    ideal = queue["step_time"].startswith("roofline:") and queue["step_time"].count(":") == 2
    bound = " (a bound from data sheets: no machine is as fast)" if ideal else ""
    lines = {
        "rules": "; ".join(chosen),
        "step time": f"{queue['step_time']}{bound}; in a full batch a request stays {trace.mean_residence_s:,.4g} s",
    }
    return lines if queue["slo"] is None else lines | {"objectives": queue["slo"]}
