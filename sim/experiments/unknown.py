"""Lengths that the note does not give: which one would meet a published figure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def length_that_meets(lengths: range, is_past: Callable[[int], bool]) -> str:
    """Half a sentence on the least of `lengths` for which `is_past`, which must turn from false to true but once."""
    place = bisect_left(lengths, True, key=is_past)
    if place == 0 or place == len(lengths):
        return f"no length from {lengths[0]:,} to {lengths[-1]:,} tokens would meet it"
    return f"{lengths[place]:,} tokens would meet it"
