"""The greatest load, and the least number of cards, for which something holds that holds for less load or more cards.

Where it is not so (a longer trace of chance), what is found is one place at which it changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

LOWEST, HIGHEST = 2.0**-7, 2.0**7  # loads past these are not tried


class State(StrEnum):
    """Whether there is a highest load at all."""

    FOUND = "found"
    ALWAYS = "always"  # holds at HIGHEST too
    NEVER = "never"  # fails at LOWEST too


@dataclass(frozen=True, slots=True)
class Found:
    """`load`: the greatest at which it held, None if it never did. `tried`: how many were."""

    state: State
    load: float | None
    tried: int


def highest_load(holds: Callable[[float], bool], precision: float) -> Found:
    """Doubles or halves from 1 until it changes, then halves the ratio until it is under 1 + `precision`."""
    tried: dict[float, bool] = {}

    def held(load: float) -> bool:
        if load not in tried:
            tried[load] = holds(load)
        return tried[load]

    low = high = 1.0
    while held(high) and high < HIGHEST:
        low, high = high, 2 * high
    if tried[high]:
        return Found(State.ALWAYS, high, len(tried))
    while not held(low) and low > LOWEST:
        low, high = low / 2, low
    if not tried[low]:
        return Found(State.NEVER, None, len(tried))
    while high > low * (1 + precision):
        middle = float(f"{math.sqrt(low * high):.6g}")
        if held(middle):
            low = middle
        else:
            high = middle
    return Found(State.FOUND, low, len(tried))


def least_cards(holds: Callable[[int], bool], most: int) -> int | None:
    """The least number from 1 to `most` for which it holds, None if it does not for `most`."""
    low, high = 0, 1  # fails for `low`; not known for `high`
    while not holds(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
