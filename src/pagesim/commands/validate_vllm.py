"""`pagesim validate vllm`: vLLM's scheduler beside the simulator, or a running server beside its prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands import reading
from pagesim.commands import run_options as o
from pagesim.commands import run_serving as q
from pagesim.commands.kernel import one_line_errors
from pagesim.commands.replay_setup import NUM_BLOCKS, Pool, Wish, of_scenario
from pagesim.commands.run import refuse_beside_scenario
from pagesim.commands.validate_replay import LOAD, MAX_MODEL_LEN, REQUESTS
from pagesim.commands.vllm_run import ServerWish, drive_vllm, hand_out, replay_on_server
from pagesim.sim.config import WorkloadConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.validate.server.result import ServerResult
    from pagesim.validate.vllm.result import VllmResult

DRAWN = WorkloadConfig()
READ = reading.DEFAULTS
BESIDE_SCENARIO = {"as_json": "--json"}
BLOCK_SIZE = 16
REQUESTS_TO_SERVER, SPEED, TIMEOUT_S, VOCAB_SIZE = 100, 1.0, 600.0, 1000


def vllm(
    context: typer.Context,
    load: Annotated[
        str | None,
        o.option(
            "--load",
            metavar="moderate|high|X",
            help=f"A preset, or X times what a full batch finishes; a --trace is scaled. [default: {LOAD}]",
        ),
    ] = None,
    trace: o.TraceFile = None,
    scenario: Annotated[
        str | None,
        o.option("--scenario", metavar="NAME|FILE", help="An experiment of `pagesim run --scenario`, or a recording."),
    ] = None,
    server: Annotated[
        str | None,
        o.option("--server", metavar="URL", help="Put the trace on this server instead, in real time: vLLM's or ours."),
    ] = None,
    model: Annotated[
        str | None, o.option("--model", help="The server's name of it. [default: the first that it lists]")
    ] = None,
    speed: Annotated[
        float, o.option("--speed", help="With --server: how often faster than the trace requests come.")
    ] = SPEED,
    timeout: Annotated[
        float, o.option("--timeout", metavar="SECONDS", help="With --server: when to break off, whatever is there.")
    ] = TIMEOUT_S,
    vocab_size: Annotated[
        int, o.option("--vocab-size", help="With --server: prompts are made of token ids below this.")
    ] = VOCAB_SIZE,
    num_blocks: Annotated[
        int | None,
        o.option(
            "--num-blocks",
            help="The pool, the null block counted in; with --server, what it is expected to be. "
            f"[default: {NUM_BLOCKS}; with --server, its own]",
        ),
    ] = None,
    block_size: Annotated[
        int | None, o.option("--block-size", help=f"Tokens in a block. [default: {BLOCK_SIZE}; with --server, its own]")
    ] = None,
    max_model_len: o.MaxModelLen = MAX_MODEL_LEN,
    arrivals: o.Arrivals = DRAWN.arrivals,
    lengths: o.Lengths = DRAWN.lengths,
    prompt_share: o.PromptShare = DRAWN.prompt_share,
    prompt_lengths: o.PromptLengths = DRAWN.prompt_lengths,
    output_lengths: o.OutputLengths = DRAWN.output_lengths,
    requests: Annotated[
        int | None,
        o.option("--requests", help=f"How many are drawn. [default: {REQUESTS}; with --server, {REQUESTS_TO_SERVER}]"),
    ] = None,
    seed: o.Seed = 0,
    token_budget: q.TokenBudget = None,
    max_num_seqs: q.MaxNumSeqs = None,
    no_chunked_prefill: q.NoChunkedPrefill = False,
    long_prefill_threshold: q.LongPrefillThreshold = None,
    no_reserve_full_isl: q.NoReserveFullIsl = False,
    watermark: q.Watermark = None,
    policy: q.PolicyName = None,
    prefix_caching: q.PrefixCaching = False,
    step_time: q.StepTimeAlone = None,
    on_bad_row: reading.OnBadRow = READ.on_bad_row,
    zero_output: reading.ZeroOutput = READ.zero_output,
    unsorted: reading.Unsorted = READ.unsorted,
    duplicates: reading.Duplicates = READ.duplicates,
    jitter: reading.JitterS = READ.jitter_s,
    jitter_seed: reading.JitterSeed = READ.jitter_seed,
    hash_block_tokens: reading.HashBlockTokens = READ.hash_block_tokens,
    start: reading.Start = READ.start,
    limit: reading.Limit = READ.limit,
    as_json: Annotated[
        bool,
        o.option(
            "--json", help="Print JSON, schema pagesim.validate-vllm/1; with --server, pagesim.validate-server/1."
        ),
    ] = False,
) -> None:
    """Drive the scheduler of the vLLM that is installed, without a model, and compare every step with the simulator's.

    With --server: serve the trace there and compare with the prediction. The rules are those it was started with.

    Exit status: 0 if all agrees that must be equal, 1 if it differs, 2 on wrong usage and where a server breaks off.
    """
    result: VllmResult | ServerResult
    with one_line_errors():
        if scenario is not None:
            refuse_beside_scenario(context, BESIDE_SCENARIO)
            result = drive_vllm(of_scenario(scenario, None))
        else:
            rules: dict[str, Any] = {
                "token_budget": token_budget, "max_num_seqs": max_num_seqs, "watermark": watermark, "policy": policy,
                "long_prefill_threshold": long_prefill_threshold, "chunked_prefill": not no_chunked_prefill,
                "reserve_full_isl": not no_reserve_full_isl, "prefix_caching": prefix_caching,
                "block_size": block_size or BLOCK_SIZE, "max_model_len": max_model_len,
            }  # fmt: skip
            drawn = {
                "arrivals": arrivals, "lengths": lengths, "prompt_share": prompt_share,
                "prompt_lengths": prompt_lengths, "output_lengths": output_lengths, "num_requests": requests,
            }  # fmt: skip
            read = reading.read_options(
                on_bad_row, zero_output, unsorted, duplicates, jitter, jitter_seed, hash_block_tokens, start, limit
            )
            rules = {name: value for name, value in rules.items() if value is not None}
            most = REQUESTS if server is None else REQUESTS_TO_SERVER
            wish = Wish(load or (None if trace else LOAD), trace, read, drawn, most, seed, step_time)
            if server is not None:
                asked = ServerWish(server, model, speed, timeout, vocab_size, num_blocks, block_size)
                result = replay_on_server(asked, wish, rules)
            else:
                _refuse_without_server(model, speed, timeout, vocab_size)
                blocks = NUM_BLOCKS if num_blocks is None else num_blocks
                result = drive_vllm(wish.setup(rules, Pool(blocks, None, None), None))
    hand_out(result, as_json)
    if (why := getattr(result, "broke_off", None)) is not None:
        raise UsageError(f"it broke off, and the result is not whole: {why}")
    if not result.agrees:
        raise typer.Exit(1)


def _refuse_without_server(model: str | None, speed: float, timeout_s: float, vocab_size: int) -> None:
    for flag, said in (
        ("--model", model is not None),
        ("--speed", speed != SPEED),
        ("--timeout", timeout_s != TIMEOUT_S),
        ("--vocab-size", vocab_size != VOCAB_SIZE),
    ):
        if said:
            raise UsageError(f"{flag} is of a server; accepted: together with --server")
