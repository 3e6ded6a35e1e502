"""All rows of the note's table: none is left out, and one that does not agree says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from pagesim.sim.experiments.catalogue import NOTE, experiment
from pagesim.sim.run import expected_requests
from pagesim.validate.note import ours
from pagesim.validate.note.ours import Ours
from pagesim.validate.note.row import REPRODUCED_WITHIN, NoteRow, Standing, of_experiment

SERVED = {  # rows of the note's table that its experiments show, and of which kind they are
    "prompt_blocks": "A", "starved": "M", "unstarved": "M", "starved_repeats": "M", "starved_cached": "M",
    "quarter_pool": "M", "shared_prefix": "M", "cold_warm": "M", "n8_short": "M", "n8_long": "M",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """A row as it was published. `within`: how near it must be to count as reproduced, where the note is less exact
    than REPRODUCED_WITHIN, relative.
    """

    id: str
    kind: str
    what: str
    published: tuple[float, ...]
    unit: str
    command: str
    within: float = REPRODUCED_WITHIN


@dataclass(frozen=True, slots=True)
class Note:
    """The note's table, but for the rows of SERVED."""

    note: str
    measured_on: str
    rows: tuple[Published, ...]


@cache
def note() -> Note:
    """What is recorded in the package."""
    text = files("pagesim.validate.note").joinpath("published.json").read_bytes()
    return msgspec.json.decode(text, type=Note)


def num_requests() -> int:
    """What `on_progress` of `note_rows` adds up to."""
    served = sum(experiment(name).num_requests for name in NOTE)
    return served + sum(expected_requests(ours.loaded(load), None) for load in ours.LOADS)


def note_rows(on_progress: Callable[[int], None] | None = None) -> list[NoteRow]:
    """Every row; takes some seconds. `on_progress` is told of requests that were simulated."""
    computed = ours.geometry() | ours.budget() | ours.drawn() | ours.placed(on_progress) | ours.kernels()
    by_name: dict[str, list[Published]] = defaultdict(list)
    for row in note().rows:
        by_name[row.id].append(row)
    rows = [row for name, published in by_name.items() for row in _beside(published, computed[name])]
    return rows + _served(on_progress)


def _beside(published: list[Published], found: Ours) -> list[NoteRow]:
    return [
        NoteRow(
            row.id, row.kind, row.what, row.published, value, row.unit, _standing(row, value, found.standing),
            row.command, found.remark, _standing(row, value, found.standing) is not found.standing,
        )
        for row, value in zip(published, found.values, strict=True)
    ]  # fmt: skip


def _standing(row: Published, value: float, claimed: Standing) -> Standing:
    """What is claimed, if it is so."""
    (published,) = row.published
    within = {Standing.ARITHMETIC: 0.0, Standing.FITTED: 0.0, Standing.REPRODUCED: row.within}.get(claimed)
    agrees = within is None or abs(value - published) <= within * abs(published)
    return claimed if agrees else Standing.NOT_EXPLAINED


def _served(on_progress: Callable[[int], None] | None) -> list[NoteRow]:
    """The rows that experiments show, in the order of SERVED."""
    found: dict[str, list[NoteRow]] = {name: [] for name in SERVED}
    for name in NOTE:
        for row in experiment(name).run(on_progress):
            if row.figure in SERVED and row.published:
                command = f"pagesim run --scenario {name}"
                found[row.figure].append(of_experiment(row, SERVED[row.figure], command))
    return [row for rows in found.values() for row in rows]
