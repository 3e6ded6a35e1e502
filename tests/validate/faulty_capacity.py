"""Plants one fault after the other in the capacity probe and its engine, each in a fork of its own; prints what came.

Started by `test_capacity_probe.py`. Libraries load once; a fault, and the limit on memory, end with their fork.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch

from pagesim.engine import contiguous_cache, engine
from pagesim.engine.config import EngineConfig
from pagesim.validate.capacity import probe, start

CONFIG = EngineConfig(**json.loads(sys.argv[1]))
LENGTHS = json.loads(sys.argv[2])
BOOKS_BYTES = int(sys.argv[3])
kept: list[object] = []
allocate, load_model, plan_memory = probe.KvCache.allocate, probe.load_model, engine.plan_memory


def half_a_buffer() -> None:
    probe.KvCache.allocate = lambda weights, rows, tokens, **more: allocate(weights, rows, tokens // 2, **more)


def buffers_nobody_writes() -> None:
    probe.KvCache.allocate = lambda weights, rows, tokens, audit: weights.embedding.new_empty(
        weights.config.num_layers, rows, 2, tokens, weights.config.kv_size
    )


def a_second_copy_of_the_weights() -> None:
    def load(*arguments: Any) -> Any:
        kept.append(torch.ones(20 * 2**20 // 4))
        return load_model(*arguments)

    probe.load_model = load


def a_limit_that_nobody_enforces() -> None:
    probe.limit_promised = lambda num_bytes: None


def a_block_too_many() -> None:
    def plan(*arguments: Any) -> Any:
        account = plan_memory(*arguments)
        return replace(account, num_blocks=account.num_blocks + 1)

    engine.plan_memory = plan


def a_cache_twice() -> None:
    def allocate_twice(*arguments: Any, **more: Any) -> Any:
        kept.append(allocate(*arguments, **more))
        return allocate(*arguments, **more)

    engine.KvCache.allocate = allocate_twice


def a_slot_too_many_for_exact_fit() -> None:
    length = contiguous_cache.ContiguousCache._length
    contiguous_cache.ContiguousCache._length = lambda self, sequence: length(self, sequence) + (not self.reservation)


FAULTS: dict[str, tuple[str, Callable[[], None]]] = {
    "none in the probe": ("probe", lambda: None),
    "none in the start": ("start", lambda: None),
    **{fault.__name__: ("probe", fault) for fault in (
        half_a_buffer, buffers_nobody_writes, a_second_copy_of_the_weights, a_limit_that_nobody_enforces,
    )},
    **{fault.__name__: ("start", fault) for fault in (
        a_block_too_many, a_cache_twice, a_slot_too_many_for_exact_fit,
    )},
}  # fmt: skip


def see(work: str) -> Any:
    if work == "probe":
        return asdict(probe.probe(CONFIG, CONFIG.max_model_len, lambda count: None))
    found = start.start(CONFIG, LENGTHS, BOOKS_BYTES, lambda count: None)
    return found if isinstance(found, str) else [asdict(found[0]), [asdict(each) for each in found[1]]]


def in_fork(work: str, fault: Callable[[], None]) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            fault()
            text = json.dumps(see(work))
        except BaseException as error:
            text = json.dumps({"broke": repr(error)})
        with os.fdopen(writing, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        text = lines.read()
    os.waitpid(child, 0)
    return text


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({name: [work, json.loads(in_fork(work, fault))] for name, (work, fault) in FAULTS.items()}))
