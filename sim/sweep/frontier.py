"""How much load cards can take: a search for each variant, allocator and seed; intervals over the seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pagesim.sim.jsontext import canonical
from pagesim.sim.stats import Interval, amount
from pagesim.sim.sweep.bisection import State
from pagesim.sim.sweep.journal import Journal
from pagesim.sim.sweep.objective import Objective
from pagesim.sim.sweep.plan import Plan, Variant, varied_options
from pagesim.sim.sweep.routing import Route
from pagesim.sim.sweep.search import Search

SCHEMA = "pagesim.frontier/1"


@dataclass(frozen=True, slots=True)
class Frontier:
    """What is searched for, in which variants."""

    plan: Plan
    objective: Objective
    precision: float
    route: Route

    def points(self) -> Iterator[Search]:
        """In order of variant, allocator and seed."""
        for variant in self.plan.variants:
            for _, searches in self.by_allocator(variant):
                yield from searches

    def by_allocator(self, variant: Variant) -> Iterator[tuple[str, list[Search]]]:
        """The searches of a variant, one for each seed; none where it makes no sense."""
        if variant.config is None:
            return
        base = canonical([variant.key, self.objective.text, self.precision, self.route])
        for name in variant.config.allocators:
            config = replace(variant.config, allocators=(name,))
            key = hashlib.sha256((base + name).encode()).hexdigest()[:32]
            yield name, [
                Search(f"{key}-{seed}", replace(config, seed=seed), self.objective, self.precision, self.route,
                       variant.files)
                for seed in self.plan.seeds
            ]  # fmt: skip

    @property
    def num_points(self) -> int:
        """Searches in all."""
        return sum(1 for _ in self.points())


@dataclass(frozen=True, slots=True)
class Line:
    """The frontier of one variant and allocator. `states`: of how many seeds each. `load` and `rate_per_s`: None unless
    every seed found one; `load` where it always holds is the greatest that was tried. `figures`: at the frontier.
    `cards`: of a trace, what was found.
    """

    options: Mapping[str, Any]
    allocator: str | None
    states: Mapping[str, int]
    load: Interval | None
    rate_per_s: Interval | None
    figures: Mapping[str, Interval]
    prefix_hit_share: float | None
    rejected_share: float | None
    cards: Mapping[str, Any] | None
    error: str | None

    @property
    def state(self) -> State | None:
        """The one of all seeds, None if they differ or there is none."""
        return State(next(iter(self.states))) if len(self.states) == 1 else None

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        return {
            "options": dict(self.options), "allocator": self.allocator, "states": dict(self.states),
            "load": _json(self.load), "rate_per_s": _json(self.rate_per_s),
            "figures": {name: each.as_json() for name, each in self.figures.items()},
            "prefix_hit_share": self.prefix_hit_share, "rejected_share": self.rejected_share,
            "cards": None if self.cards is None else dict(self.cards), "error": self.error,
        }  # fmt: skip


def lines(frontier: Frontier, journal: Journal) -> list[Line]:
    """Of searches that are all in the journal."""
    names = varied_options(frontier.plan)
    every = []
    for variant in frontier.plan.variants:
        options = {name: variant.options[name] for name in names}
        if variant.config is None:
            every.append(Line(options, None, {}, None, None, {}, None, None, None, variant.error))
        for name, searches in frontier.by_allocator(variant):
            every.append(_line(options, name, [journal.read(search.key) for search in searches]))
    return every


def _line(options: Mapping[str, Any], name: str, records: Sequence[Mapping[str, Any]]) -> Line:
    errors = [record["errors"][name] for record in records if name in record["errors"]]
    rows = [record["rows"][name] for record in records if name in record["rows"]]
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + 1
    held = [row for row in rows if row["load"] is not None]
    whole = bool(rows) and not errors and len(states) == 1 and len(held) == len(rows)
    found = whole and State.FOUND in states
    first = rows[0] if rows else {}
    return Line(
        options,
        name,
        states,
        amount([row["load"] for row in rows]) if whole else None,
        amount([row["rate_per_s"] for row in rows]) if found else None,
        {figure: amount([row["figures"][figure] for row in rows]) for figure in first["figures"]} if whole else {},
        _mean([row["prefix_hit_share"] for row in held]),
        _mean([row["rejected_share"] for row in held]),
        {key: first[key] for key in ("cards", "own_rate_per_s", "on_cards", "one_less") if key in first} or None,
        errors[0] if errors else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _json(value: Interval | None) -> dict[str, float | None] | None:
    return None if value is None else value.as_json()
