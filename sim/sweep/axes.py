"""What an option takes in a sweep: one value, several, evenly spaced ones, or any of an interval.

As text: `16,32,64`, `0.2:1.4:0.1` (both ends), or `0.5:2` and `1:64:log`, intervals that only a random design can draw
from. Numbers are decimals until the last moment, so that 0.2:1.4:0.1 has 0.3 in it and not its neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np

from pagesim.sim.errors import UsageError

MAX_VALUES = 10**5
MOST_DIGITS = 300  # before or behind the point, of an end or a step: what a float holds
DRAWN_DIGITS = 6  # significant, of a number that is drawn: short enough to type again
LOG = "log"
TRUE, FALSE = ("on", "true", "yes"), ("off", "false", "no")


@dataclass(frozen=True, slots=True)
class Interval:
    """Any number from `low` to `high`; `by_ratio`: every doubling is as likely as the next."""

    low: float
    high: float
    by_ratio: bool

    def draw(self, rng: np.random.Generator) -> str:
        """One number, as text."""
        if self.by_ratio:
            value = float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))
        else:
            value = float(rng.uniform(self.low, self.high))
        return f"{value:.{DRAWN_DIGITS}g}"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the values of an option are: how one is read, whether numbers can be spaced out, whether commas part them.

    `convert` makes the value out of its text; ValueError where it cannot. `accepted`: what it takes, in words.
    """

    convert: Callable[[str], Any]
    accepted: str
    numeric: bool = False
    whole: bool = False
    commas: bool = True


def _switch(text: str) -> bool:
    if text.lower() in TRUE + FALSE:
        return text.lower() in TRUE
    raise ValueError(text)


KINDS = {
    int: Kind(int, "a whole number", numeric=True, whole=True),
    float: Kind(float, "a number", numeric=True),
    str: Kind(str, "text"),
    Path: Kind(Path, "a file"),
    bool: Kind(_switch, "on or off"),
}
LOADS = Kind(str, "a load", numeric=True)
WHOLE_TEXT = Kind(str, "text", commas=False)


@dataclass(frozen=True, slots=True)
class Axis:
    """An option, and all that it takes: values of its type in the order given, and perhaps an interval instead."""

    name: str
    values: tuple[Any, ...]
    interval: Interval | None = None
    kind: Kind = KINDS[str]

    @property
    def varies(self) -> bool:
        """Whether it takes more than one value."""
        return self.interval is not None or len(self.values) > 1

    def draw(self, rng: np.random.Generator) -> Any:
        """One of the values, or a number of the interval."""
        if self.interval is None:
            return self.values[int(rng.integers(len(self.values)))]
        text = self.interval.draw(rng)
        return self.kind.convert(str(round(float(text))) if self.kind.whole else text)


def axis(name: str, texts: Sequence[str], kind: Kind) -> Axis:
    """What was said of the option `name`, in one text or several. Raises UsageError, naming the flag."""
    parts = [part.strip() for text in texts for part in (text.split(",") if kind.commas else [text])]
    values: list[Any] = []
    for part in parts:
        spaced = part.split(":") if kind.numeric and ":" in part else None
        if spaced is None:
            values.append(_value(name, part, kind))
        elif len(spaced) == 2 or spaced[-1] == LOG:
            if len(parts) > 1:
                raise UsageError(f"{flag(name)} {','.join(parts)}; accepted: an interval by itself, or values")
            return Axis(name, (), _interval(name, part, spaced), kind)
        else:
            values += [_value(name, text, kind) for text in _spaced(name, part, spaced)]
    if len(values) > MAX_VALUES:
        raise UsageError(f"{flag(name)}: {len(values):,} values; accepted: up to {MAX_VALUES:,}")
    return Axis(name, tuple(dict.fromkeys(values)), None, kind)


def flag(name: str) -> str:
    """The option of a parameter's name."""
    return "--" + name.replace("_", "-")


def _value(name: str, text: str, kind: Kind) -> Any:
    try:
        return kind.convert(text)
    except ValueError as error:
        spaced = ", or LOW:HIGH:STEP" if kind.numeric else ""
        raise UsageError(f"{flag(name)} {text!r}; accepted: {kind.accepted}{spaced}") from error


def _interval(name: str, text: str, parts: Sequence[str]) -> Interval:
    low, high = (float(number) for number in _numbers(name, text, parts[:2]))
    if not low < high or (len(parts) > 2 and low <= 0):
        raise UsageError(f"{flag(name)} {text}; accepted: LOW:HIGH with LOW < HIGH, or 0 < LOW for LOW:HIGH:log")
    return Interval(low, high, len(parts) > 2)


def _spaced(name: str, text: str, parts: Sequence[str]) -> list[str]:
    numbers = _numbers(name, text, parts)
    if len(numbers) != 3 or numbers[2] <= 0 or numbers[1] < numbers[0]:
        raise UsageError(f"{flag(name)} {text}; accepted: LOW:HIGH:STEP with LOW <= HIGH and STEP more than 0")
    low, high, step = numbers
    count = int((high - low) / step) + 1
    if count > MAX_VALUES:
        raise UsageError(f"{flag(name)} {text}: {count:,} values; accepted: up to {MAX_VALUES:,}")
    return [_plain(low + k * step) for k in range(count)]


def _numbers(name: str, text: str, parts: Sequence[str]) -> list[Decimal]:
    try:
        numbers = [Decimal(part) for part in parts]
    except InvalidOperation:
        numbers = []
    if not numbers or not all(number.is_finite() and abs(number.adjusted()) <= MOST_DIGITS for number in numbers):
        raise UsageError(f"{flag(name)} {text}; accepted: LOW:HIGH:STEP, all numbers, of up to {MOST_DIGITS} digits")
    return numbers


def _plain(number: Decimal) -> str:
    """Without trailing zeros, and never 1E+2."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
