"""`pagesim frontier`: the highest load at which an objective holds, and how many cards a trace takes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pagesim.commands.run_options import NoHtml, option
from pagesim.commands.sweep import SEED, SEEDS, Cluster, Jobs, Ray
from pagesim.commands.swept import axes_of, complete, config_of, with_run_options
from pagesim.commands.where import Where
from pagesim.sim.config import MAX_RUNS, RunConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.sweep.frontier import Frontier, Line

FOLDER = Path("pagesim-frontier")
PAGE = "frontier.html"
PRECISION, ROUTE = 0.01, "round-robin"


@with_run_options("load", "rate", "slo", "on_full")
def frontier(
    slo: Annotated[
        str,
        option(
            "--slo", metavar="TERMS", help="Like refused<1%, preemptions<1%, ttft_p99<2s,tpot_p50<50ms: all of them."
        ),
    ],
    seeds: Annotated[
        int | None, option("--seeds", help=f"Replications of each search. [default: {SEEDS}; with --trace, 1]")
    ] = None,
    seed: Annotated[int, option("--seed", help="The first of them.")] = SEED,
    precision: Annotated[float, option("--precision", help="The load is known to this part of it.")] = PRECISION,
    route: Annotated[
        str, option("--route", metavar="round-robin|prefix", help="How a trace is dealt out to several cards.")
    ] = ROUTE,
    jobs: Jobs = None,
    cluster: Cluster = None,
    ray: Ray = None,
    out: Annotated[Path, option("--out", metavar="FOLDER", help="Where searches are kept, and found again.")] = FOLDER,
    retry_failed: Annotated[bool, option("--retry-failed", help="Search again what went wrong before.")] = False,
    as_json: Annotated[bool, option("--json", help="Print JSON, schema pagesim.frontier/1.")] = False,
    no_html: NoHtml = False,
    *,
    said: dict[str, Any],
) -> None:
    """Find the highest load at which an objective holds, for several cards, models or rules side by side.

    The objective says whether requests are refused (refused, refused_tokens, dropped) or wait (preemptions, and ttft,
    tpot, itl, e2e, queueing with _p50, _p90, _p95, _p99, _mean, _max). With --trace also how many cards it takes at its
    own times. Exit status: 0, or 1 if anything went wrong for some combinations.
    """
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.sweep.frontier import SCHEMA

    wanted = _frontier(said, slo, seed, seeds, precision, route)
    found = _search(wanted, Where(jobs, cluster, ray), out, retry_failed)
    if as_json:
        answer = {"objective": wanted.objective.text, "precision": precision, "route": route,
                  "seeds": {"first": seed, "count": len(wanted.plan.seeds)}}  # fmt: skip
        print(dumps({"schema": SCHEMA, **answer, "lines": [line.as_json() for line in found]}))
    else:
        _print(found, wanted)
    if not no_html:
        from pagesim.sim.sweep.frontier_page import frontier_page

        frontier_page(found, wanted, shlex.join(["pagesim", *sys.argv[1:]])).write(out / PAGE)
        print(f"report: {out / PAGE}", file=sys.stderr if as_json else sys.stdout)
    if any(line.error is not None for line in found):
        raise typer.Exit(1)


def _frontier(said: dict[str, Any], slo: str, first: int, seeds: int | None, precision: float, route: str) -> Frontier:
    from pagesim.sim.sweep.design import grid
    from pagesim.sim.sweep.frontier import Frontier
    from pagesim.sim.sweep.objective import parse_objective
    from pagesim.sim.sweep.plan import make_plan
    from pagesim.sim.sweep.routing import ROUTES
    from pagesim.sim.sweep.trace_once import read_once

    objective = parse_objective(slo)
    count = seeds if seeds is not None else 1 if "trace" in said else SEEDS
    if not 1 <= count <= MAX_RUNS:
        raise UsageError(f"--seeds {count}; accepted: 1 to {MAX_RUNS}")
    if "trace" in said and count > 1:
        raise UsageError("--trace is one run; accepted: --seeds 1, or --lengths file:TRACE to draw from its lengths")
    if not 1e-4 <= precision <= 1:
        raise UsageError(f"--precision {precision:g}; accepted: 0.0001 to 1")
    if route not in ROUTES:
        raise UsageError(f"--route {route}; accepted: {', '.join(ROUTES)}")
    if route != ROUTE and "trace" not in said:
        raise UsageError(f"--route {route} deals out a trace; accepted: together with --trace")
    waiting = {"on_full": "queue" if objective.waiting else "refuse", "load": "1"}
    combinations = (complete(values | waiting) for values in grid(axes_of(said)))
    plan = make_plan(combinations, range(first, first + count), _of_one_length)
    if route == "prefix":
        for variant in plan.variants:
            trace = None if variant.config is None else read_once(variant.config)
            if trace is not None and trace.hash_ids is None:
                raise UsageError(f"--route prefix: {variant.options['trace']} has no hash_ids; accepted: {ROUTE}")
    return Frontier(plan, objective, precision, cast(Any, route))


def _of_one_length(options: Mapping[str, Any]) -> RunConfig:
    """As many requests at every load, if nothing is said: what arrives in 17 mean residences at a load of 1."""
    from pagesim.sim.source import source

    config = config_of(options)
    if config.trace is not None or config.workload.num_requests is not None:
        return config
    return replace(config, workload=replace(config.workload, num_requests=source(config, None).num_requests))


def _search(wanted: Frontier, where: Where, folder: Path, retry_failed: bool) -> list[Line]:
    from pagesim.commands.sweep_out import carry_on
    from pagesim.sim.sweep.frontier import lines
    from pagesim.sim.sweep.journal import Journal
    from pagesim.sim.sweep.sweep import Rest

    with Journal.opened(folder) as journal:
        carry_on(Rest(wanted, journal, retry_failed), where, folder, "searches")
        return lines(wanted, journal)


def _print(found: list[Line], wanted: Frontier) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from pagesim.sim.sweep import frontier_words as words

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(*words.head(found, wanted), box=SIMPLE, pad_edge=False)
    for row in words.rows(found, wanted):
        table.add_row(*row)
    console.print(table)
    for sentence in words.sentences(found, wanted):
        console.print(f"- {sentence}")
