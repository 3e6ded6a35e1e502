"""The options of `pagesim run --on-full queue`: the rules of serving, how long a step takes, objectives."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from pagesim.commands.run_options import option
from pagesim.sim.config import REFERENCE_STEP_TIME, PoolConfig, QueueConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig

HOST_MEMORY = "4GiB"  # what vLLM set aside when it still swapped
HOST_BANDWIDTH = "12GB"  # what PCIe 3.0 x16 carries
DEFAULTS = {field.name: field.default for field in fields(ServingConfig)}


def _rule(flag: str, field: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    return option(flag, help=f"{help} [default: {DEFAULTS[field]}]", metavar=metavar)


def _switch(flag: str, help: str) -> typer.models.OptionInfo:
    return option(flag, help=help)


TokenBudget = Annotated[int | None, _rule("--token-budget", "token_budget", "Tokens computed in a step, at most.")]
MaxNumSeqs = Annotated[int | None, _rule("--max-num-seqs", "max_num_seqs", "Sequences that run at once, at most.")]
NoChunkedPrefill = Annotated[bool, _switch("--no-chunked-prefill", "Compute each prompt in one step.")]
LongPrefillThreshold = Annotated[
    int | None,
    _rule("--long-prefill-threshold", "long_prefill_threshold", "Tokens of one prompt in a step, at most; 0: any."),
]
NoReserveFullIsl = Annotated[
    bool, _switch("--no-reserve-full-isl", "Admit when the first chunk fits, not all that is known.")
]
Watermark = Annotated[
    float | None, _rule("--watermark", "watermark", "Share of the blocks that an admission must leave free.")
]
PolicyName = Annotated[str | None, _rule("--policy", "policy", "Who comes first.", "fcfs|priority")]
VictimRule = Annotated[
    str | None,
    _rule("--victim", "victim", "Who is put back when blocks run out.", "last|longest|shortest|fewest-blocks"),
]
PrefixCaching = Annotated[
    bool, _switch("--prefix-caching", "Find blocks of equal beginnings again, by the trace's hash ids (paged).")
]
MatchUnit = Annotated[
    int | None,
    _rule(
        "--prefix-match-unit", "prefix_match_unit", "What-if: a match may end inside a block, at a multiple; 0: not."
    ),
]
EvictRule = Annotated[
    str | None, _rule("--evict", "evict", "Which cached block is taken first.", "lru|fifo|random|optimal")
]
PreemptRule = Annotated[
    str | None, _rule("--preempt", "preempt", "What becomes of a victim's blocks.", "recompute|swap")
]
HostMemory = Annotated[
    str | None, option("--host-memory", metavar="SIZE", help=f"Room for swapped blocks. [default: {HOST_MEMORY}]")
]
HostBandwidth = Annotated[
    str | None,
    option("--host-bandwidth", metavar="SIZE", help=f"Of the link to it, each second. [default: {HOST_BANDWIDTH}]"),
]
ForkRule = Annotated[
    str | None, _rule("--fork", "fork", "Samples of a prompt are requests of their own, or share it.", "none|cow")
]
STEP_TIME = (
    "constant:S, linear:BASE:PER_TOKEN:PER_PAIR:PER_SEQUENCE[:PER_CONTEXT[:PREFILL]], roofline:DEVICE:MODEL, "
    f"or a profile, by name or file. [default: {REFERENCE_STEP_TIME}"
)
StepTimeForm = Annotated[
    str | None,
    option("--step-time", metavar="FORM|PROFILE", help=f"{STEP_TIME}; with --device, its roofline]"),
]
StepTimeAlone = Annotated[str | None, option("--step-time", metavar="FORM|PROFILE", help=f"{STEP_TIME}]")]
Slo = Annotated[
    str | None,
    option("--slo", metavar="TERMS", help="Objectives that goodput counts by, like ttft<2s,tpot<50ms,e2e<30s."),
]


def queue_config(
    pool: PoolConfig,
    max_model_len: int,
    rules: dict[str, Any],
    step_time: str | None,
    slo: str | None,
    card: tuple[str, str] | None,
) -> QueueConfig:
    """`rules`: what was said, by the names of ServingConfig. `card`: device and model of the pool: their roofline is
    the step time, and the card's limits are vLLM's for it, unless something else is said. Raises UsageError on what
    makes no sense, before anything is read or drawn.
    """
    from pagesim.sim.budget import serving_limits
    from pagesim.sim.catalog.devices import find_device
    from pagesim.sim.serving.slo import parse_slo
    from pagesim.sim.serving.steptime import parse_step_time

    default = REFERENCE_STEP_TIME if card is None else f"roofline:{':'.join(card)}"
    form = default if step_time is None else step_time
    if card is not None:
        limits = dict(zip(("token_budget", "max_num_seqs"), serving_limits(find_device(card[0])), strict=True))
        rules = limits | rules
    parse_step_time(form)
    if slo is not None:
        parse_slo(slo)
    said = {name: value for name, value in rules.items() if not name.startswith("host_")}
    host = {name: value for name, value in rules.items() if name.startswith("host_")}
    if rules.get("preempt") == "swap":
        said |= _host(pool, host.get("host_memory", HOST_MEMORY), host.get("host_bandwidth", HOST_BANDWIDTH))
    elif host:
        flag = next(iter(host)).replace("_", "-")
        raise UsageError(f"--{flag} is of swapping; accepted: together with --preempt swap")
    config = ServingConfig(num_blocks=pool.num_blocks, block_size=pool.block_size, max_model_len=max_model_len, **said)
    return QueueConfig(config, form, slo)


def _host(pool: PoolConfig, memory: str, bandwidth: str) -> dict[str, Any]:
    from pagesim.sim.sizes import parse_bytes

    block_bytes = pool.block_size * pool.bytes_per_token
    return {
        "host_blocks": parse_bytes(memory, "--host-memory") // block_bytes,
        "host_bandwidth_bytes_per_s": float(parse_bytes(bandwidth, "--host-bandwidth")),
        "bytes_per_token": pool.bytes_per_token,
    }


def refuse_rules(said: dict[str, Any]) -> None:
    """Raise UsageError if an option of serving was given, by the name of its field, where nothing waits."""
    for name, value in said.items():
        if value is not None:
            flag = ("no-" if value is False else "") + name.replace("_", "-")
            raise UsageError(f"--{flag} is of serving; accepted: together with --on-full queue")
