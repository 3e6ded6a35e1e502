"""From the options of `pagesim run`, as they were said, to a RunConfig: for `run` itself and for whatever sweeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagesim.commands import reading, run_options
from pagesim.commands import run_serving as q
from pagesim.commands.run_pool import run_pool
from pagesim.sim.config import PER_SECOND, RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError

DEFAULT = RunConfig()
DRAWN = WorkloadConfig()
RULES = (
    "token_budget", "max_num_seqs", "long_prefill_threshold", "watermark", "policy", "victim", "prefix_match_unit",
    "evict", "preempt", "host_memory", "host_bandwidth", "fork",
)  # fmt: skip
DRAWS = {  # parameter of `run`: field of WorkloadConfig
    "arrivals": "arrivals", "lengths": "lengths", "prompt_share": "prompt_share", "prompt_lengths": "prompt_lengths",
    "output_lengths": "output_lengths", "truncate": "truncation", "requests": "num_requests",
}  # fmt: skip


def run_config(said: Mapping[str, Any]) -> RunConfig:
    """`said`: the value of every parameter of the `run` command, by name; those that decide nothing are passed over.

    Raises UsageError or GeometryError on values, and combinations of them, that make no sense.
    """
    load, trace = _load(said), said["trace"]
    drawn: Any = {field: said[name] for name, field in DRAWS.items()}
    if trace is not None and (given := [name for name, field in DRAWS.items() if said[name] != getattr(DRAWN, field)]):
        raise UsageError(f"--trace and {flag(given[0])} given; accepted: one of the two")
    read = reading.read_options(
        said["on_bad_row"], said["zero_output"], said["unsorted"], said["duplicates"], said["jitter"],
        said["jitter_seed"], said["hash_block_tokens"], said["start"], said["limit"],
    )  # fmt: skip
    if trace is None:
        reading.refuse_unread(read)
    limits = {"max_num_batched_tokens": said["token_budget"], "max_num_seqs": said["max_num_seqs"]}
    pool = run_pool(
        said["pool_tokens"], said["num_blocks"], said["model"], said["device"], said["utilization"], said["tp"],
        said["block_size"], limits,
    )  # fmt: skip
    words: Any = {"on_full": said["on_full"]}
    rules = _rules(said)
    if said["on_full"] == "queue":
        _refuse_placement(said)
        card = (said["device"], said["model"]) if said["device"] and said["model"] else None
        words["queue"] = q.queue_config(pool, said["max_model_len"], rules, said["step_time"], said["slo"], card)
    else:
        q.refuse_rules(rules | {name: said[name] for name in ("step_time", "slo", "steps")})
        rule = said["residence"] or ("decode" if trace else "total")
        residence = _residence(rule, said["mean_residence"], said["decode_rate"])
        words |= {"growth": said["growth"], "residence": rule, **residence}
    runs = said["runs"]
    return RunConfig(
        load=load if load is not None or trace else DEFAULT.load,
        trace=None if trace is None else str(trace),
        reading=read,
        workload=WorkloadConfig(**drawn),
        pool=pool,
        max_model_len=said["max_model_len"],
        allocators=_names(said["allocators"]),
        **words,
        warmup=said["warmup"],
        seed=said["seed"],
        num_runs=runs if runs is not None else 1 if trace else DEFAULT.num_runs,
    )


def flag(name: str) -> str:
    """The option of a parameter's name."""
    return "--" + name.replace("_", "-")


def _load(said: Mapping[str, Any]) -> str | None:
    load: str | None = said["load"]
    if said["rate"] is None:
        return load
    if load is not None:
        raise UsageError("--load and --rate given; accepted: one of the two")
    return f"{said['rate']:.17g}{PER_SECOND}"


def _rules(said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of the rules of serving, by the names of ServingConfig."""
    rules = {name: said[name] for name in RULES} | {
        "chunked_prefill": False if said["no_chunked_prefill"] else None,
        "reserve_full_isl": False if said["no_reserve_full_isl"] else None,
        "prefix_caching": said["prefix_caching"] or None,
    }
    return {name: value for name, value in rules.items() if value is not None}


def _names(text: str) -> tuple[str, ...]:
    from pagesim.sim.allocators import builtin_names

    if text == run_options.ALL:
        return tuple(name for name in builtin_names() if name != "exact-fit:first")  # exact-fit is that one
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _refuse_placement(said: Mapping[str, Any]) -> None:
    usual = {"growth": DEFAULT.growth, "residence": None, "mean_residence": None, "decode_rate": None}
    for name, default in usual.items():
        if said[name] != default:
            raise UsageError(f"{flag(name)} is of a request that stays as long as it likes; accepted: --on-full refuse")


def _residence(rule: str, mean_s: float | None, decode_rate: float | None) -> dict[str, float]:
    if rule == "total" and decode_rate is not None:
        raise UsageError("--decode-rate goes with --residence decode; accepted: --mean-residence")
    if rule == "decode" and mean_s is not None:
        raise UsageError("--mean-residence goes with --residence total; accepted: --decode-rate")
    said = {"mean_residence_s": mean_s, "decode_rate": decode_rate}
    return {name: value for name, value in said.items() if value is not None}
