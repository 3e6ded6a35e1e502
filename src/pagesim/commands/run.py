"""`pagesim run`: several allocators, one trace."""

from __future__ import annotations


def run() -> None:
    """Put several allocators through the same trace and say what each one wastes and refuses."""
