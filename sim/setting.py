"""What was run, in words: a line for each of load, requests, pool, lengths and whatever decides what became of them."""

from __future__ import annotations

from typing import Any

from pagesim.sim.facts import PoolFacts, TraceFacts
from pagesim.sim.workload import PRESETS


def percent(value: float) -> str:
    """0.1234 -> 12.3%."""
    return f"{100 * value:.1f}%"


def setting(config: dict[str, Any], pool: PoolFacts, trace: TraceFacts) -> dict[str, str]:
    """The lines of a result's `config`, `pool` and `trace`."""
    gib = pool.tokens * pool.bytes_per_token / 2**30
    count = len(trace.replications)
    replications = f"{f' in each of {count} replications' if count > 1 else ''}, seed {config['seed']}"
    lines = {
        "load": _load(config, trace),
        "requests": f"{trace.requests:,}{replications if config['trace'] is None else ' of ' + config['trace']}",
        "pool": f"{pool.tokens:,} tokens, {pool.num_blocks:,} blocks of {pool.block_size}; "
        f"{pool.bytes_per_token:,} B a token, {gib:.2f} GiB ({pool.origin})",
        "context": f"{config['max_model_len']:,} tokens: room for {pool.reservations:,} reservations",
        "lengths": trace.lengths,
    }
    lines |= _residence(config, trace) if config["queue"] is None else _serving(config["queue"], trace)
    if config["warmup"]:
        lines["warm-up"] = f"the first {percent(config['warmup'])} of the time is in no figure"
    return lines


def _load(config: dict[str, Any], trace: TraceFacts) -> str:
    name, rate_per_s = config["load"], trace.rate_per_s
    if name is None or rate_per_s is None:
        return "the trace's own times"
    words = f"{name} = {PRESETS[name].erlangs:g}" if name in PRESETS else f"{float(name):g}"
    by_slot = name in PRESETS and PRESETS[name].per == "slot"
    if config["queue"] is None:
        unit = "erlangs a reservation" if by_slot else "of the pool in tokens"
    else:
        unit = f"times what a batch that is full{' of reservations' if by_slot else ''} finishes"
    arrivals = "the trace's times scaled" if config["trace"] else config["workload"]["arrivals"]
    return f"{words} {unit}: {rate_per_s:,.6g} requests/s, {arrivals}"


def _residence(config: dict[str, Any], trace: TraceFacts) -> dict[str, str]:
    mean = f"mean {trace.mean_residence_s:,.4g} s"
    growth = {"final": "all tokens count from admission", "token": "the prompt at once, then a token at a time"}
    how = "proportional to the total length"
    if config["residence"] != "total":
        how = f"output tokens at {config['decode_rate']:g} a second"
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
    lines = {
        "rules": "; ".join(chosen),
        "step time": f"{queue['step_time']}; a request that need not wait stays {trace.mean_residence_s:,.4g} s",
    }
    return lines if queue["slo"] is None else lines | {"objectives": queue["slo"]}
