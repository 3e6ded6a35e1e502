"""One run, decided: every option of `pagesim run` that has a say in its result. The defaults live here."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from pagesim.sim.errors import UsageError
from pagesim.sim.pool import NOTE_POOL
from pagesim.sim.reading import ReadOptions
from pagesim.sim.serving.config import OF_BLOCKS, PAGED, ServingConfig

Growth = Literal["final", "token"]
OnFull = Literal["refuse", "queue"]
ResidenceRule = Literal["total", "decode"]
DEFAULT_ALLOCATORS = ("reservation", "exact-fit", "paged")
REFERENCE_STEP_TIME = "t4-qwen2.5-0.5b-vllm0.29"  # the profile that is shipped
PER_SECOND = "/s"  # ends a load that is a plain rate
MAX_SEED = 2**63 - 1
MAX_RUNS = 10**5
MAX_REQUESTS = 10**8  # more are a mistake of unit, and would not fit into memory


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """The pool: `tokens` slots in all, and where that number comes from. Default: the note's."""

    tokens: int = NOTE_POOL.pool_tokens
    block_size: int = NOTE_POOL.block_size
    bytes_per_token: int = NOTE_POOL.bytes_per_token
    origin: str = "the reference setup: Tesla T4 at 85%, Qwen2.5-0.5B in half precision"

    @property
    def num_blocks(self) -> int:
        """Whole blocks in the pool."""
        return self.tokens // self.block_size


@dataclass(frozen=True, slots=True)
class WorkloadConfig:
    """What is drawn when no trace is given.

    `lengths` is of the total, prompt and output together, `prompt_share` of it prompt; or of each by itself where
    `prompt_lengths` and `output_lengths` are given; or pairs out of a file, `file:PATH`. `truncation`: what a length
    past max_model_len becomes. `num_requests` None: as many as arrive in 17 mean residences.
    """

    arrivals: str = "poisson"
    lengths: str = "lognormal:260:180"
    prompt_share: float = 0.5
    prompt_lengths: str | None = None
    output_lengths: str | None = None
    truncation: Literal["clip", "resample"] = "clip"
    num_requests: int | None = None


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """How requests are served where they wait: by which rules, over which pool, and how fast.

    `step_time`: as `steptime.parse_step_time` takes it. `slo`: objectives for goodput, as `slo.parse_slo` takes them.
    The pool of `rules` is the run's, and each allocator takes its turn in it; one that gives each sequence a run of
    slots goes without what needs blocks: prefix caching, swapping, forks.
    """

    rules: ServingConfig = field(default_factory=ServingConfig)
    step_time: str = REFERENCE_STEP_TIME
    slo: str | None = None

    def rules_for(self, allocator: str) -> ServingConfig:
        """The rules with `allocator` in charge of the pool."""
        if allocator == PAGED:
            return self.rules
        kept = {field.name: getattr(self.rules, field.name) for field in fields(self.rules)}
        return ServingConfig(**{name: kept[name] for name in kept if name not in OF_BLOCKS}, allocator=allocator)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides the result of `pagesim run`.

    `load`: a preset, a number as text, or a rate like "4/s"; None only with a `trace`, whose own times then stand.
    `residence`: how long a placed request stays: "total", proportional to its total length and `mean_residence_s` in
    the mean, or "decode", its output tokens at `decode_rate` a second. `warmup`: the share of the time that is
    left out of all figures. `num_runs`: independent replications; a trace is one. `queue`: how requests are served that
    wait, with `on_full` "queue", where `growth` and residence have no say. Raises UsageError on values that make no
    sense.
    """

    load: str | None = "high"
    trace: str | None = None
    reading: ReadOptions = field(default_factory=ReadOptions)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    pool: PoolConfig = field(default_factory=PoolConfig)
    max_model_len: int = 2048
    allocators: tuple[str, ...] = DEFAULT_ALLOCATORS
    on_full: OnFull = "refuse"
    growth: Growth = "final"
    residence: ResidenceRule = "total"
    mean_residence_s: float = 1.0
    decode_rate: float = 25.0
    warmup: float = 0.0
    seed: int = 0
    num_runs: int = 5
    queue: QueueConfig | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("--max-model-len", self.max_model_len, 2, MAX_SEED),
            ("--runs", self.num_runs, 1, MAX_RUNS),
            ("--seed", self.seed, 0, MAX_SEED),
            ("--requests", self.workload.num_requests, 1, MAX_REQUESTS),
            ("--pool-tokens", self.pool.tokens, 1, MAX_SEED),
            ("--block-size", self.pool.block_size, 1, MAX_SEED),
        ):
            if value is not None and not low <= value <= high:
                raise UsageError(f"{name} {value}; accepted: {low} to {high}")
        if not 0 <= self.warmup < 1:
            raise UsageError(f"--warmup {self.warmup:g}; accepted: 0 or more and less than 1, a share of the time")
        for name, rate in (("--mean-residence", self.mean_residence_s), ("--decode-rate", self.decode_rate)):
            if not (rate > 0 and math.isfinite(rate)):
                raise UsageError(f"{name} {rate:g}; accepted: more than 0")
        for name, value_text, accepted in (
            ("--growth", self.growth, get_args(Growth)),
            ("--residence", self.residence, get_args(ResidenceRule)),
            ("--truncate", self.workload.truncation, ("clip", "resample")),
            ("--on-full", self.on_full, get_args(OnFull)),
        ):
            if value_text not in accepted:
                raise UsageError(f"{name} {value_text}; accepted: {', '.join(accepted)}")
        if isinstance(self.allocators, str):
            raise UsageError(f"allocators {self.allocators!r}; accepted: a tuple of names")
        if not self.allocators or len(set(self.allocators)) < len(self.allocators):
            raise UsageError(f"--allocators {','.join(self.allocators)}; accepted: one or more names, each once")
        if self.load is None and self.trace is None:
            raise UsageError("neither --load nor --trace given; accepted: at least one of them")
        if self.trace is not None and self.num_runs != 1:
            raise UsageError("--trace is one run; accepted: --runs 1, or --lengths file:TRACE to draw from its lengths")

        self._check_queue()

    def _check_queue(self) -> None:
        if (self.queue is not None) != (self.on_full == "queue"):
            raise UsageError(
                f"--on-full {self.on_full} and queue {self.queue}; accepted: a QueueConfig with 'queue' alone"
            )
        if self.queue is not None:
            rules, pool = self.queue.rules, self.pool
            ours = (pool.num_blocks, pool.block_size, self.max_model_len)
            if (rules.num_blocks, rules.block_size, rules.max_model_len) != ours:
                raise UsageError(
                    f"rules for {rules.num_blocks} blocks of {rules.block_size} and {rules.max_model_len} tokens; "
                    f"accepted: those of the run, {ours[0]}, {ours[1]} and {ours[2]}"
                )

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        return asdict(self)
