"""`pagesim validate vllm`: vLLM's scheduler beside the simulator, or a running server beside its prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands import reading
from pagesim.commands import run_options as o
from pagesim.commands import run_serving as q
from pagesim.commands.kernel import one_line_errors, wide_console
from pagesim.commands.replay_setup import NUM_BLOCKS, Pool, Setup, Wish, of_scenario
from pagesim.commands.run import refuse_beside_scenario
from pagesim.commands.validate_replay import LOAD, MAX_MODEL_LEN, REQUESTS
from pagesim.sim.config import WorkloadConfig

if TYPE_CHECKING:
    from pagesim.validate.vllm.result import VllmResult

DRAWN = WorkloadConfig()
READ = reading.DEFAULTS
BESIDE_SCENARIO = {"as_json": "--json"}


def vllm(
    context: typer.Context,
    load: Annotated[
        str | None,
        o.option(
            "--load",
            metavar="moderate|high|X",
            help=f"A preset, or X times the pool in tokens. With --trace its times are scaled. [default: {LOAD}]",
        ),
    ] = None,
    trace: o.TraceFile = None,
    scenario: Annotated[
        str | None,
        o.option("--scenario", metavar="NAME|FILE", help="An experiment of `pagesim run --scenario`, or a recording."),
    ] = None,
    num_blocks: Annotated[int, o.option("--num-blocks", help="The pool, the null block counted in.")] = NUM_BLOCKS,
    block_size: o.BlockSize = 16,
    max_model_len: o.MaxModelLen = MAX_MODEL_LEN,
    arrivals: o.Arrivals = DRAWN.arrivals,
    lengths: o.Lengths = DRAWN.lengths,
    prompt_share: o.PromptShare = DRAWN.prompt_share,
    prompt_lengths: o.PromptLengths = DRAWN.prompt_lengths,
    output_lengths: o.OutputLengths = DRAWN.output_lengths,
    requests: Annotated[int | None, o.option("--requests", help=f"How many are drawn. [default: {REQUESTS}]")] = None,
    seed: o.Seed = 0,
    token_budget: q.TokenBudget = None,
    max_num_seqs: q.MaxNumSeqs = None,
    no_chunked_prefill: q.NoChunkedPrefill = False,
    long_prefill_threshold: q.LongPrefillThreshold = None,
    no_reserve_full_isl: q.NoReserveFullIsl = False,
    watermark: q.Watermark = None,
    policy: q.PolicyName = None,
    prefix_caching: q.PrefixCaching = False,
    step_time: q.StepTimeForm = None,
    on_bad_row: reading.OnBadRow = READ.on_bad_row,
    zero_output: reading.ZeroOutput = READ.zero_output,
    unsorted: reading.Unsorted = READ.unsorted,
    duplicates: reading.Duplicates = READ.duplicates,
    jitter: reading.JitterS = READ.jitter_s,
    jitter_seed: reading.JitterSeed = READ.jitter_seed,
    hash_block_tokens: reading.HashBlockTokens = READ.hash_block_tokens,
    start: reading.Start = READ.start,
    limit: reading.Limit = READ.limit,
    as_json: Annotated[bool, o.option("--json", help="Print JSON, schema pagesim.validate-vllm/1.")] = False,
) -> None:
    """Drive the scheduler of the vLLM that is installed, without a model, and compare every step with the simulator's.

    Exit status: 0 if they agree, 1 if they differ, 2 on wrong usage.
    """
    with one_line_errors():
        if scenario is not None:
            refuse_beside_scenario(context, BESIDE_SCENARIO)
            setup = of_scenario(scenario, None)
        else:
            rules: dict[str, Any] = {
                "token_budget": token_budget, "max_num_seqs": max_num_seqs, "watermark": watermark, "policy": policy,
                "long_prefill_threshold": long_prefill_threshold, "chunked_prefill": not no_chunked_prefill,
                "reserve_full_isl": not no_reserve_full_isl, "prefix_caching": prefix_caching,
                "block_size": block_size, "max_model_len": max_model_len,
            }  # fmt: skip
            drawn = {
                "arrivals": arrivals, "lengths": lengths, "prompt_share": prompt_share,
                "prompt_lengths": prompt_lengths, "output_lengths": output_lengths, "num_requests": requests,
            }  # fmt: skip
            read = reading.read_options(
                on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
            )
            wish = Wish(load or (None if trace else LOAD), trace, read, drawn, REQUESTS, seed, step_time)
            pool = Pool(num_blocks, None, None)
            setup = wish.setup({name: value for name, value in rules.items() if value is not None}, pool, None)
        result = _drive(setup)
    _print(result, as_json)
    if not result.agrees:
        raise typer.Exit(1)


def _drive(setup: Setup) -> VllmResult:
    from pagesim.sim.console import progress
    from pagesim.validate.replay.logical import replay_logically
    from pagesim.validate.vllm.made import check_importable
    from pagesim.validate.vllm.result import VllmResult
    from pagesim.validate.vllm.rules import check_rules
    from pagesim.validate.vllm.scheduling import vllm_machine
    from pagesim.validate.vllm.versions import installed_version

    experiment = setup.experiment
    check_rules(experiment.config)
    version = installed_version()
    with progress(f"vLLM {version} imported", None):
        check_importable()
    with progress("requests simulated, then scheduled by vLLM", 2 * len(experiment.samples)) as advance:
        logical = replay_logically(experiment, advance, vllm_machine)
    return VllmResult(version, setup.source, setup.step_time, experiment, logical)


def _print(result: VllmResult, as_json: bool) -> None:
    from pagesim.sim.jsontext import dumps

    if as_json:
        print(dumps(result.document()))
        return
    console = wide_console()
    console.print(result.source)
    print_table(console, result.table())
    for line in result.lines():
        console.print(line, soft_wrap=True)


def print_table(console: Any, lines: list[list[str]]) -> None:
    """The first line is the head; figures stand to the right."""
    from rich.box import SIMPLE
    from rich.table import Table

    head, *rows = lines
    table = Table(*head, box=SIMPLE, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)
