"""The probe: real buffers of one reservation each beside real weights, until there is no more, and how many there were.

A buffer is allocated as the engine allocates its cache, and every number in it is written. On a CPU the operating
system refuses, at a limit that was set before; on a card the driver does, or, if a limit was given, torch. Run in a
process of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import ConfigError, MemoryBudgetError
from pagesim.engine.kv_cache import KvCache, token_bytes
from pagesim.engine.models.model import load_model
from pagesim.validate.capacity.memory import limit_promised, promised_bytes, touched_bytes
from pagesim.validate.capacity.seen import Probed

if TYPE_CHECKING:
    from pagesim.engine.models.weights import Weights

BEYOND = 3  # buffers past the last that has room, after which it is said that nothing refuses
REFUSALS = ("allocate memory", "out of memory")


def probe(config: EngineConfig, max_model_len: int, advance: Callable[[int], None]) -> Probed:
    """Count reservations of `max_model_len`. `advance(1)`: one more. Raises EngineError."""
    torch.set_num_threads(1)  # threads have stacks
    with torch.inference_mode():
        return (_probe_cpu if config.device == "cpu" else _probe_card)(config, max_model_len, advance)


def _probe_cpu(config: EngineConfig, max_model_len: int, advance: Callable[[int], None]) -> Probed:
    torch.empty(2**20).fill_(1.0)  # what a first buffer brings with it is not counted
    before = promised_bytes()
    weights = load_model(config.model, config.dtype, torch.device("cpu"), config.seed).weights
    beside = promised_bytes() - before - weights.num_bytes
    limit = _limit(config, weights)
    _check_room(limit, weights.num_bytes + beside)
    limit_promised(before + limit)
    touched = touched_bytes()
    room = limit - weights.num_bytes - beside
    buffers, refused = _fill(weights, max_model_len, room, advance)
    return Probed(
        limit_bytes=limit,
        before_bytes=0,
        weights_bytes=weights.num_bytes,
        beside_weights_bytes=beside,
        buffer_bytes=_buffer_bytes(weights, max_model_len),
        count=len(buffers),
        left_bytes=before + limit - promised_bytes(),
        touched_bytes=touched_bytes() - touched,
        refused=refused,
        refused_by="the operating system, at the limit that was set",
        device=config.device,
    )


def _probe_card(config: EngineConfig, max_model_len: int, advance: Callable[[int], None]) -> Probed:
    if not torch.cuda.is_available():
        raise ConfigError(f"device is {config.device}; accepted: cpu; no CUDA device was found")
    device = torch.device(config.device)
    weights = load_model(config.model, config.dtype, device, config.seed).weights
    KvCache.allocate(weights, 1, 1, audit=True)  # loads what fills a buffer
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    ours = torch.cuda.memory_reserved(device)
    before = total - free - ours
    limit, by = total, "the driver"
    if config.memory is not None or config.kv_bytes is not None or config.num_blocks is not None:
        limit, before, by = _limit(config, weights), 0, "torch, at the limit that was set"
        _check_room(limit, ours)
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
    buffers, refused = _fill(weights, max_model_len, limit - before - ours, advance)
    left = torch.cuda.mem_get_info(device)[0]
    if limit < total:
        left = limit - torch.cuda.memory_reserved(device)
    return Probed(
        limit_bytes=limit,
        before_bytes=before,
        weights_bytes=weights.num_bytes,
        beside_weights_bytes=ours - weights.num_bytes,
        buffer_bytes=_buffer_bytes(weights, max_model_len),
        count=len(buffers),
        left_bytes=left,
        touched_bytes=None,
        refused=refused,
        refused_by=by,
        device=torch.cuda.get_device_name(device),
    )


def _limit(config: EngineConfig, weights: Weights) -> int:
    """What was said of all memory, or of the pool alone."""
    if config.memory is not None:
        return config.memory
    block_bytes = config.block_size * token_bytes(weights)
    pool = config.kv_bytes if config.num_blocks is None else config.num_blocks * block_bytes
    assert pool is not None
    return weights.num_bytes + pool


def _check_room(limit: int, taken: int) -> None:
    if taken >= limit:
        raise MemoryBudgetError(f"memory is {limit:,} bytes, and weights take {taken:,}; accepted: more than that")


def _fill(
    weights: Weights, max_model_len: int, room_bytes: int, advance: Callable[[int], None]
) -> tuple[list[KvCache], bool]:
    """Buffers until one is refused; False: none was, though by all accounts there was no more room."""
    buffers: list[KvCache] = []
    for _ in range(room_bytes // _buffer_bytes(weights, max_model_len) + BEYOND):
        try:
            buffers.append(KvCache.allocate(weights, 1, max_model_len, audit=True))
        except RuntimeError as error:
            if not any(said in str(error) for said in REFUSALS):
                raise
            return buffers, True
        advance(1)
    return buffers, False


def _buffer_bytes(weights: Weights, max_model_len: int) -> int:
    return max_model_len * token_bytes(weights)
