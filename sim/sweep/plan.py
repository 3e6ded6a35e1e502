"""What a sweep consists of, before anything is run: variants of the options, and seeds; together, points.

A point is known by its key: the hash of everything that decides its result, so that what is on disk can be told from
what is still to do, whatever command asks for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pagesim import __version__
from pagesim.sim.allocators import in_order
from pagesim.sim.config import RunConfig
from pagesim.sim.errors import PagesimError
from pagesim.sim.jsontext import canonical, rounded
from pagesim.sim.source import source
from pagesim.sim.sweep.named_files import named_files
from pagesim.sim.sweep.point import Point
from pagesim.sim.sweep.trace_once import read_once

MakeConfig = Callable[[Mapping[str, Any]], RunConfig]


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of options. `config` is None where it makes no sense, and `error` says why.

    `options`: what every option of `run` is. `files`: those that the configuration names, with the hash of each.
    `requests`: how many are put through allocators with one seed, for the estimate of the time left. `mean_tokens`: of
    a request that can be served, prompt and output.
    """

    number: int
    options: Mapping[str, Any]
    config: RunConfig | None
    error: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0
    mean_tokens: float | None = None

    @property
    def key(self) -> str:
        """Of everything but the seed."""
        assert self.config is not None, self.error
        whole = {"pagesim": __version__, "config": replace(self.config, seed=0).as_json(), "files": dict(self.files)}
        return hashlib.sha256(canonical(whole).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Plan:
    """All variants, and the seeds of each."""

    variants: tuple[Variant, ...]
    seeds: range

    def points(self) -> Iterator[Point]:
        """In order of variant and seed; variants that make no sense have none."""
        for variant in self.variants:
            if variant.config is not None:
                key = variant.key
                for seed in self.seeds:
                    config = replace(variant.config, seed=seed)
                    yield Point(f"{key}-{seed}", config, variant.files, variant.requests)

    @property
    def num_points(self) -> int:
        """Points in all."""
        return sum(variant.config is not None for variant in self.variants) * len(self.seeds)


def make_plan(combinations: Iterable[Mapping[str, Any]], seeds: range, make: MakeConfig) -> Plan:
    """A variant for each combination, those that come to the same once.

    Raises the first error of all if none of them makes sense.
    """
    variants: list[Variant] = []
    first: PagesimError | None = None
    seen: set[str] = set()
    for options in combinations:
        try:
            variant = _variant(len(variants), options, make)
        except PagesimError as error:
            first = first or error
            variants.append(Variant(len(variants), options, None, str(error)))
            continue
        if variant.key not in seen:
            seen.add(variant.key)
            variants.append(variant)
    if first is not None and not seen:
        raise first
    return Plan(tuple(variants), seeds)


def _variant(number: int, options: Mapping[str, Any], make: MakeConfig) -> Variant:
    config = make(options)
    config = replace(config, allocators=tuple(in_order(config.allocators)))
    found = source(config, read_once(config))
    requests = found.num_requests * len(config.allocators)
    mean_tokens = rounded(found.moments.p + found.moments.o)
    return Variant(number, options, config, None, named_files(config), requests, mean_tokens)


def varied_options(plan: Plan) -> list[str]:
    """The options that are not the same in all variants."""
    first = plan.variants[0].options
    return [name for name in first if any(variant.options[name] != first[name] for variant in plan.variants)]
