"""Rows of a trace that equal an earlier one in every column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.trace import HashIds


def repeats(columns: dict[str, NDArray[Any]], hash_ids: HashIds | None) -> NDArray[np.bool_]:
    """True where a row equals one before it, bool [rows]. `columns` holds `arrival`, in order, and all others.

    Only rows with equal arrivals are compared: they are sorted by what they hold, so that equal rows stand together.
    """
    arrival = columns["arrival"]
    same = np.diff(arrival) == 0
    near = np.flatnonzero(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    repeated = np.zeros(len(arrival), bool)
    if len(near):
        keys = [column[near] for column in columns.values()]
        if hash_ids is not None:
            keys += [np.diff(hash_ids.offsets)[near], _digest(hash_ids, near)]
        order = np.lexsort(keys)  # stable: of equal rows the earliest comes first
        equal = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
        if hash_ids is not None:
            for k in np.flatnonzero(equal):
                equal[k] = np.array_equal(hash_ids[int(near[order[k]])], hash_ids[int(near[order[k + 1]])])
        repeated[near[order[1:]][equal]] = True
    return repeated


def _digest(hash_ids: HashIds, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """One number for the ids of each row: equal ids have equal numbers, other ids hardly ever."""
    ids = hash_ids.take(rows)
    place = np.arange(len(ids.values)) - np.repeat(ids.offsets[:-1], np.diff(ids.offsets)) + 1
    mixed = ids.values.astype(np.uint64) + place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    digest: NDArray[np.uint64] = total[ids.offsets[1:]] - total[ids.offsets[:-1]]
    return digest
