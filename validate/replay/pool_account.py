"""Which slots of a real cache hold a token: read off a pool that was filled with NaN, slot by slot.

A slot that was given back keeps what it held, so whatever is newly given out is filled with NaN again before the step
writes. What is then not NaN, among the slots that somebody owns, holds a token of theirs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pagesim.engine.step import Step
from pagesim.validate.slots import owned_slots

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Account:
    """Slots of the usable pool: held and with a token; held, empty and to be filled; held and never filled; free."""

    used: int
    reserved: int
    internal: int
    free: int


@dataclass(frozen=True, slots=True)
class PoolSample:
    """The account of step `step`, as simulated and as read off the cache.

    `torn`: slots that hold a part of a token, in some layers or K without V. `misplaced`: slots that hold a token
    where the engine's tables say there is none, or the other way round.
    """

    step: int
    start_s: float
    simulator: Account
    engine: Account
    torn: int
    misplaced: int

    @property
    def agrees(self) -> bool:
        """Whether the two accounts are equal, and every slot is as the tables say."""
        return self.simulator == self.engine and not self.torn and not self.misplaced

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self) | {"agrees": self.agrees}


class PoolReader:
    """Reads an engine that was made with `audit`."""

    def __init__(self, engine: Engine) -> None:
        self._cache, self._layers, self._scheduler = engine.cache, engine.tensors.layers, engine.scheduler
        self._num_slots = engine.cache.num_rows * engine.cache.row_tokens
        null = engine.cache.row_tokens if engine.cache.is_paged else 0
        self._usable = self._num_slots - null

    def wipe(self, step: Step) -> None:
        """NaN into all slots that `step` gives out: call it when the step is scheduled and not computed."""
        size, is_paged = self._cache.row_tokens, self._cache.is_paged
        slots = [np.arange(target * size, (target + 1) * size) for _, target in step.copies]
        admitted = {sequence.id for sequence, _ in step.admitted}
        for sequence, start, num_tokens, _ in step.chunks:
            if is_paged:  # a block is given out when its first slot is to be written
                mine, first = owned_slots(self._cache, sequence), -(-start // size) * size
                slots.append(mine[first : -(-(start + num_tokens) // size) * size])
            elif sequence.id in admitted:
                slots.append(owned_slots(self._cache, sequence))
        if slots:
            rows, places = np.divmod(np.concatenate(slots), size)
            for layer in self._layers:
                layer[rows, :, places] = float("nan")

    def account(self, step: Step) -> tuple[Account, int, int]:
        """The account once `step` is computed and before its outputs are taken in; slots torn; slots misplaced."""
        owned, holds, fills = (np.zeros(self._num_slots, np.bool_) for _ in range(3))
        stops = {chunk.sequence.id: chunk.stop for chunk in step.chunks}
        for sequence in self._scheduler.running:
            mine = owned_slots(self._cache, sequence)
            owned[mine] = True
            holds[mine[: stops.get(sequence.id, sequence.num_computed)]] = True
            fills[mine[: sequence.max_slots]] = True
        slots = np.flatnonzero(owned)
        full, empty = self._read(slots)
        used, internal = int(full.sum()), int((~full & ~fills[slots]).sum())
        account = Account(used, len(slots) - used - internal, internal, self._usable - len(slots))
        return account, int((~full & ~empty).sum()), int((full != holds[slots]).sum())

    def _read(self, slots: npt.NDArray[np.int64]) -> tuple[Mask, Mask]:
        """Whether each slot holds K and V in all layers, and whether none of any."""
        rows, places = np.divmod(slots, self._cache.row_tokens)
        full, empty = np.ones(len(slots), np.bool_), np.ones(len(slots), np.bool_)
        for layer in self._layers:
            nan = layer[rows, :, places].isnan().flatten(1)
            full &= ~nan.any(1).cpu().numpy()
            empty &= nan.all(1).cpu().numpy()
        return full, empty
