"""Random numbers that are the same on every machine and in every version of Python: SplitMix64.

Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014. A question must not change
with a library, so none is asked. Numbers for exercises, not for statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class Draws:
    """A stream of numbers out of one 64-bit state."""

    def __init__(self, state: int) -> None:
        self._state = state & MASK

    @classmethod
    def of(cls, seed: int, number: int) -> Draws:
        """The stream of exercise `number` of a seed: the first exercises are the same however many are asked for."""
        return cls(cls(seed).bits() + number)

    def bits(self) -> int:
        """The next 64 bits."""
        self._state = (self._state + GOLDEN) & MASK
        mixed = self._state
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MASK
        return mixed ^ (mixed >> 31)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + (self.bits() * (high - low + 1) >> 64)

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 draws."""
        return self.between(0, 99) < percent

    def one_of(self, items: Sequence[Item]) -> Item:
        """Any of them, each as likely."""
        return items[self.between(0, len(items) - 1)]

    def sample(self, count: int, out_of: int) -> list[int]:
        """`count` different numbers under `out_of`, in the order drawn."""
        left = list(range(out_of))
        return [left.pop(self.between(0, len(left) - 1)) for _ in range(count)]
