"""The engine's options, each with its one default. What a model or a device makes of them is settled at start-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pagesim.engine.errors import ConfigError

Policy = Literal["fcfs", "priority"]
Backend = Literal["reference", "triton"]
CACHES = ("paged", "reservation", "exact-fit", *(f"exact-fit:{fit}" for fit in ("first", "best", "next", "worst")))

AT_LEAST_ONE = (
    "block_size", "num_blocks", "kv_bytes", "memory", "token_budget", "max_num_seqs", "max_model_len",
    "long_prefill_threshold",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything a run of the engine depends on, apart from its requests.

    `cache`: one of CACHES; "exact-fit" alone is first fit. The pool is given at most one
    way: `num_blocks` (of `block_size` tokens; paged counts its null block in), `kv_bytes`, or `memory` (bytes for
    weights, activations and cache together); otherwise it is what `utilization` of the device leaves.
    `max_model_len`: prompt and output together; None: the model's own.
    `token_budget`: tokens of a step. `long_prefill_threshold`: most tokens of one request in a step.
    `reserve_full_isl`: admit a request only if all its tokens fit now. `watermark`: fraction of the pool that stays
    free when a request is admitted beside others. The names are vLLM's where the meaning is.

    Raises ConfigError that names the field, its value and what would be accepted.
    """

    model: str
    device: str = "cpu"
    dtype: str = "auto"
    cache: str = "paged"
    block_size: int = 16
    num_blocks: int | None = None
    kv_bytes: int | None = None
    memory: int | None = None
    utilization: float = 0.92
    token_budget: int = 2048
    max_num_seqs: int = 256
    max_model_len: int | None = None
    prefix_caching: bool = False
    chunked_prefill: bool = True
    long_prefill_threshold: int | None = None
    reserve_full_isl: bool = True
    watermark: float = 0.0
    policy: Policy = "fcfs"
    backend: Backend = "reference"
    eager: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; accepted: at least 1")
        for name, choices in (("cache", CACHES), ("policy", get_args(Policy)), ("backend", get_args(Backend))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; accepted: {', '.join(choices)}")
        if not 0 < self.utilization <= 1:
            raise ConfigError(f"utilization is {self.utilization}; accepted: above 0, at most 1")
        if not 0 <= self.watermark < 1:
            raise ConfigError(f"watermark is {self.watermark}; accepted: from 0 to below 1")
        pools = [name for name in ("num_blocks", "kv_bytes", "memory") if getattr(self, name) is not None]
        if len(pools) > 1:
            raise ConfigError(f"{' and '.join(pools)} are both given; accepted: the pool told one way")
        if self.prefix_caching and self.cache != "paged":
            raise ConfigError(
                f"prefix_caching with cache {self.cache!r}; accepted: with 'paged', whose blocks are shared"
            )
        if self.long_prefill_threshold is not None and not self.chunked_prefill:
            raise ConfigError(
                f"long_prefill_threshold is {self.long_prefill_threshold} without chunked_prefill; accepted: with it"
            )
