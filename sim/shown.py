"""What a person is shown of a result, in the terminal and on the page alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shown:
    """`headline`: the run in a sentence. `warning`: what a reader must know first. `rows`: a label, then a cell for
    each allocator. `sentences`: what it shows, in words. `readings`: how a word of the table is to be read. `legend`:
    what its words and signs mean.
    """

    headline: str
    warning: str | None
    rows: Sequence[Sequence[str]]
    sentences: Sequence[str]
    readings: str | None
    legend: str
