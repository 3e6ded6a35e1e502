"""How many threads torch takes, said and not left to it: times depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine

SMALL_BYTES = 2**24  # of weights: matrices so small are not worth handing to several threads


@contextmanager
def threads(engine: Engine, number: int | None = None) -> Iterator[int]:
    """`number` of them, afterwards as many as before. None: one for a small model, where more wait for each other, on a
    busy machine nearly always; else torch's own choice."""
    import torch

    before = torch.get_num_threads()
    small = engine.account.weights_bytes < SMALL_BYTES
    number = number or (1 if small else before)
    torch.set_num_threads(number)
    try:
        yield number
    finally:
        torch.set_num_threads(before)
