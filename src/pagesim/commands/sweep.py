"""`pagesim sweep`: a grid or a random design over the options of `pagesim run`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands.run_options import NoHtml, option
from pagesim.commands.sweep_file import read_design
from pagesim.commands.swept import RUN_OPTIONS, axes_of, complete, config_of, option_types, with_run_options
from pagesim.sim.config import MAX_RUNS, RunConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.sweep.plan import Plan

SEEDS, SEED, DESIGN_SEED = RunConfig().num_runs, RunConfig().seed, 0
FOLDER = Path("pagesim-sweep")
OWN = ("seeds", "seed", "random", "design_seed")  # what a file may say beside the options of `run`

Jobs = Annotated[int | None, option("--jobs", help="Processes on this machine. [default: its cores]")]
Cluster = Annotated[str | None, option("--cluster", metavar="ADDRESS", help="Or the workers of a Dask scheduler.")]
Ray = Annotated[str | None, option("--ray", metavar="ADDRESS", help="Or those of a Ray cluster; auto: the one here.")]


@with_run_options()
def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="A TOML file of options; the command line goes before it.")
    ] = None,
    seeds: Annotated[
        int | None, option("--seeds", help=f"Replications of each. [default: {SEEDS}; with --trace, 1]")
    ] = None,
    seed: Annotated[int | None, option("--seed", help=f"The first of them. [default: {SEED}]")] = None,
    random: Annotated[
        int | None,
        option("--random", metavar="N", help="N combinations drawn at random, not all. LOW:HIGH, LOW:HIGH:log"),
    ] = None,
    design_seed: Annotated[int | None, option("--design-seed", help=f"Of that draw. [default: {DESIGN_SEED}]")] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    ray: Ray = None,
    out: Annotated[Path, option("--out", metavar="FOLDER", help="Where everything goes, and is found again.")] = FOLDER,
    retry_failed: Annotated[bool, option("--retry-failed", help="Run again what went wrong before.")] = False,
    as_json: Annotated[bool, option("--json", help="Print JSON, schema pagesim.sweep/1.")] = False,
    no_html: NoHtml = False,
    figure: Annotated[
        Path | None, option("--figure", metavar="FILE", help="The first figure by itself: .html, .png, .svg or .pdf.")
    ] = None,
    *,
    said: dict[str, Any],
) -> None:
    """Run every combination of the values given, or some at random; all allocators see the same requests.

    Results go to FOLDER/results.parquet, a row for each combination, seed and allocator. The same command, stopped in
    whatever way, goes on where it was. Exit status: 0, or 1 if anything went wrong for some combinations.
    """
    from pagesim.commands.sweep_out import hand_out, run_plan
    from pagesim.commands.where import Where

    typed = {"seeds": seeds, "seed": seed, "random": random, "design_seed": design_seed}
    own = {name: value for name, value in typed.items() if value is not None}
    if file is not None:
        written = read_design(file, {*RUN_OPTIONS, *OWN})
        own = {name: _whole(name, written[name]) for name in OWN if name in written} | own
        said = {name: texts for name, texts in written.items() if name not in OWN} | said
    if figure is not None:
        from pagesim.sim.files import check_writable
        from pagesim.sim.picture_file import kind_of

        kind_of(figure)
        check_writable(figure)
    plan = _plan(said, own)
    result = run_plan(plan, option_types(), Where(jobs, cluster, ray), out, retry_failed)
    if status := hand_out(result, as_json, no_html, figure):
        raise typer.Exit(status)


def _plan(said: dict[str, Any], own: dict[str, int]) -> Plan:
    from pagesim.sim.sweep.plan import make_plan

    first, count = own.get("seed", SEED), own.get("seeds", 1 if "trace" in said else SEEDS)
    if not 1 <= count <= MAX_RUNS:
        raise UsageError(f"--seeds {count}; accepted: 1 to {MAX_RUNS}")
    if "trace" in said and count > 1:
        raise UsageError("--trace is one run; accepted: --seeds 1, or --lengths file:TRACE to draw from its lengths")
    return make_plan(map(complete, _combinations(said, own)), range(first, first + count), config_of)


def _combinations(said: dict[str, Any], own: dict[str, int]) -> Iterator[dict[str, Any]]:
    from pagesim.sim.sweep.design import grid, random_design

    axes = axes_of(said)
    if "random" in own:
        return random_design(axes, own["random"], own.get("design_seed", DESIGN_SEED))
    if "design_seed" in own:
        raise UsageError("--design-seed is of a random design; accepted: together with --random")
    return grid(axes)


def _whole(name: str, texts: Any) -> int:
    try:
        (text,) = texts
        return int(text)
    except ValueError as error:
        raise UsageError(f"--{name.replace('_', '-')} {','.join(texts)}; accepted: a whole number") from error
