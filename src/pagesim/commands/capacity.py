"""`pagesim capacity`: what fits into a card, or into a pool."""

from __future__ import annotations


def capacity() -> None:
    """Say what fits: reservations, sequences by length, the waste of the last block."""
