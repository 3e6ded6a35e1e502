"""From what a caller says of model, card or pool to a pool: bytes to tokens to blocks.

Exactly one thing decides the size of a pool: a card, a number of bytes, or a number of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pagesim.sim.budget import DEFAULT_UTILIZATION, BudgetOptions, MemoryBudget, memory_budget
from pagesim.sim.catalog.devices import Device, find_device
from pagesim.sim.catalog.modelconfig import Model
from pagesim.sim.catalog.models import find_model
from pagesim.sim.errors import GeometryError, UsageError
from pagesim.sim.geometry import CacheGeometry, cache_geometry, plain_cache
from pagesim.sim.pool import NOTE_POOL, Engine, PoolGeometry

KV_DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What a caller may say. `model`: a built-in name or a path; `kv_bytes`: of one rank; `windows` False: hybrid off.

    `utilization` and the rest of `budget` matter with a `device` alone.
    """

    model: str | None = None
    bytes_per_token: int | None = None
    device: str | None = None
    kv_bytes: int | None = None
    num_blocks: int | None = None
    block_size: int = NOTE_POOL.block_size
    kv_dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    windows: bool = True
    engine: Engine = Engine.VLLM
    budget: BudgetOptions = field(default_factory=BudgetOptions)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool, the cache of a sequence in it, and what both were made from. `budget` is None without a device."""

    pool: PoolGeometry
    cache: CacheGeometry
    model: Model | None
    device: Device | None
    budget: MemoryBudget | None


def pool_from(options: PoolOptions) -> PoolGeometry:
    """The pool that `options` describe; the note's pool, cut into their block size, if they say nothing of one.

    Raises UsageError or GeometryError as `plan_pool` does.
    """
    said = (options.model, options.bytes_per_token, options.device, options.kv_bytes, options.num_blocks)
    if all(value is None for value in said):
        _check_counts(options)
        return _cut(NOTE_POOL.pool_bytes, options, NOTE_POOL.bytes_per_token)
    return plan_pool(options).pool


def plan_pool(options: PoolOptions) -> PoolPlan:
    """Work out a pool.

    Raises UsageError if the options contradict each other or decide nothing, GeometryError if the model, the card or
    their budget does not hold together, or not one block fits.
    """
    _check_counts(options)
    deciding = {"--device": options.device, "--kv-bytes": options.kv_bytes, "--num-blocks": options.num_blocks}
    said = [name for name, value in deciding.items() if value is not None]
    if len(said) != 1:
        raise UsageError(
            f"the pool is decided by {' and '.join(said) or 'nothing'}; accepted: one of {', '.join(deciding)}"
        )
    if options.device is None:
        _refuse_card_terms(options.budget)
    model = None if options.model is None else find_model(options.model)
    cache = _cache(options, model)
    if options.num_blocks is not None:
        pool = PoolGeometry(options.num_blocks, options.block_size, cache.bytes_per_token, options.engine.null_blocks)
        return PoolPlan(pool, cache, model, None, None)
    if options.kv_bytes is not None:
        return PoolPlan(_cut(options.kv_bytes, options, cache.bytes_per_token), cache, model, None, None)
    device = find_device(str(options.device))
    budget = memory_budget(model, device, options.budget, options.tp, options.pp)
    return PoolPlan(_cut(budget.cache_bytes, options, cache.bytes_per_token), cache, model, device, budget)


def _cut(num_bytes: int, options: PoolOptions, bytes_per_token: int) -> PoolGeometry:
    bytes_per_block = options.block_size * bytes_per_token
    num_blocks = options.engine.blocks_in(num_bytes, bytes_per_block)
    if num_blocks < 1 + options.engine.null_blocks:
        least = "1" if options.engine.null_blocks == 0 else "2, one of them the null block,"
        raise GeometryError(
            f"{num_bytes:,} B hold {num_blocks} blocks of {bytes_per_block:,} B; accepted: {least} or more"
        )
    return PoolGeometry(num_blocks, options.block_size, bytes_per_token, options.engine.null_blocks)


def _cache(options: PoolOptions, model: Model | None) -> CacheGeometry:
    if (model is None) == (options.bytes_per_token is None):
        both = "both --model and --bytes-per-token" if model is not None else "neither --model nor --bytes-per-token"
        raise UsageError(f"{both} given; accepted: one of the two, to say what a token costs")
    if model is None or options.bytes_per_token is not None:
        if options.kv_dtype != "auto" or options.tp != 1 or options.pp != 1:
            raise UsageError("--bytes-per-token is of one rank as it is; --kv-dtype, --tp and --pp need --model")
        return plain_cache(options.bytes_per_token or 0)
    if model.query_heads % options.tp:
        raise GeometryError(f"tp {options.tp} does not divide the {model.query_heads} heads of {model.name}")
    number_bytes = model.number_bytes() if options.kv_dtype == "auto" else _kv_dtype_bytes(options.kv_dtype)
    return cache_geometry(model.layers, number_bytes, options.tp, options.pp, options.windows)


def _kv_dtype_bytes(kv_dtype: str) -> int:
    if kv_dtype not in KV_DTYPE_BYTES:
        raise UsageError(f"--kv-dtype {kv_dtype!r}; accepted: auto, {', '.join(KV_DTYPE_BYTES)}")
    return KV_DTYPE_BYTES[kv_dtype]


def _refuse_card_terms(budget: BudgetOptions) -> None:
    """Parts of a card's budget, where no card decides the pool. Weights may be said: the bare card needs them too."""
    if budget.utilization != DEFAULT_UTILIZATION:
        raise UsageError(f"--utilization {budget.utilization:g} is of a card; accepted: together with --device")
    for name in ("activation_bytes", "workspace_bytes", "noncache_bytes", "max_num_batched_tokens"):
        if getattr(budget, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is of a card; accepted: together with --device")


def _check_counts(options: PoolOptions) -> None:
    for name in ("block_size", "tp", "pp", "num_blocks", "kv_bytes", "bytes_per_token"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value}; accepted: 1 or more")
