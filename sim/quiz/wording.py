"""Small words that the topics share."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str) -> str:
    """1 token; 2 tokens."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(items: Iterable[object]) -> str:
    """[1, 2, 3], as a student writes it."""
    return f"[{', '.join(map(str, items))}]"
