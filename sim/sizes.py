"""Sizes in bytes, as people write and read them. GiB is 2^30, GB is 10^9, and neither is guessed."""

from __future__ import annotations

import re
from fractions import Fraction

from pagesim.sim.errors import UsageError

UNITS = {
    "": 1, "b": 1,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)


def parse_bytes(text: str, what: str) -> int:
    """Whole bytes of "2GiB", "942 MiB", "1.8647GB" or "12288", rounded to the nearest byte.

    `what` names the option in the message. Raises UsageError on a negative size, an unknown unit, or no number.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = UNITS.get(match.group(2).lower()) if match else None
    if match is None or unit is None:
        raise UsageError(f"{what} {text!r} is no size; accepted: a number of B, KiB, MiB, GiB, KB, MB or GB, like 2GiB")
    return round(Fraction(match.group(1)) * unit)


def format_bytes(num_bytes: int) -> str:
    """A size for people, in binary units: 12 KiB, 942.3 MiB, 10.63 GiB."""
    value, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    digits = 0 if value == int(value) else 2 if unit in ("GiB", "TiB") else 1
    return f"{value:,.{digits}f} {unit}"
