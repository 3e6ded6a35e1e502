"""The engine's own start: its account of memory beside what it really took, and what its caches hold. In a child."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pagesim.engine.config import EngineConfig
from pagesim.engine.engine import Engine
from pagesim.engine.models.presets import RANDOM
from pagesim.validate.capacity.held import KINDS, hold
from pagesim.validate.capacity.memory import limit_promised, promised_bytes
from pagesim.validate.capacity.probe import REFUSALS
from pagesim.validate.capacity.seen import Held, Started


def start(
    config: EngineConfig, lengths: Sequence[int], books_bytes: int, advance: Callable[[int], None]
) -> tuple[Started, list[Held]] | str:
    """Start an engine and fill caches of its size. A str: why it found no memory for what it had planned.

    On a CPU the system holds a random model to the budget and to `books_bytes` beside it, for tables and lists.
    `advance(1)`: one cache filled. Raises EngineError.
    """
    torch.set_num_threads(1)
    torch.empty(2**20).fill_(1.0)
    on_card = config.device != "cpu"
    before = 0 if on_card else promised_bytes()
    if not on_card and config.memory is not None and config.model.startswith(RANDOM):
        limit_promised(before + config.memory + books_bytes)
    try:
        engine = Engine(config, audit=True)
    except RuntimeError as error:
        if not any(said in str(error) for said in REFUSALS):
            raise
        return str(error).partition("\n")[0]
    device = torch.device(config.device)
    took = torch.cuda.memory_reserved(device) if on_card else promised_bytes() - before
    account = engine.account
    started = Started(
        model=engine.model.name,
        number_bytes=engine.model.weights.embedding.dtype.itemsize,
        limit_bytes=account.limit_bytes,
        weights_bytes=account.weights_bytes,
        copy_bytes=account.copy_bytes,
        activation_bytes=account.activation_bytes,
        rule=account.rule,
        num_blocks=account.num_blocks,
        cache_bytes=engine.tensors.num_bytes,
        took_bytes=took,
        total_bytes=torch.cuda.get_device_properties(device).total_memory if on_card else None,
        report=tuple(engine.report()),
    )
    del engine
    if not on_card:
        limit_promised(-1)
    held = []
    for kind in KINDS:
        for tokens in lengths:
            held.append(hold(config, started.num_blocks, config.max_model_len or 0, kind, tokens))
            advance(1)
    return started, held
