"""`pagesim validate capacity`: what a device, an engine and its caches really hold, beside what was predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagesim.commands.run_options import option
from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.validate.capacity.result import CapacityResult, Row

MODEL, MAX_MODEL_LEN, CPU_MEMORY = "random:qwen2.5-0.5b", 2048, "3GiB"
DEFAULT = EngineConfig(MODEL)


def capacity(
    model: Annotated[
        str, option("--model", help="random:qwen2.5-0.5b, random:tiny, random:CONFIG.json, a directory or a hub id.")
    ] = MODEL,
    device: Annotated[str, option("--device", help="cpu, cuda or cuda:N.")] = DEFAULT.device,
    dtype: Annotated[str, option("--dtype", help="auto, float32, bfloat16 or float16.")] = DEFAULT.dtype,
    memory: Annotated[
        str | None,
        option("--memory", metavar="SIZE", help=f"All there is to take. [default: on a CPU {CPU_MEMORY}, or the card]"),
    ] = None,
    kv_bytes: Annotated[
        str | None, option("--kv-bytes", metavar="SIZE", help="Or the pool in bytes, beside the weights,")
    ] = None,
    num_blocks: Annotated[int | None, option("--num-blocks", help="or in blocks.")] = None,
    utilization: Annotated[
        float, option("--utilization", help="The part of a card that the engine may use.")
    ] = DEFAULT.utilization,
    block_size: Annotated[int, option("--block-size", help="Tokens in a block.")] = DEFAULT.block_size,
    max_model_len: Annotated[
        int, option("--max-model-len", help="Longest sequence, which is what a reservation holds.")
    ] = MAX_MODEL_LEN,
    token_budget: Annotated[int, option("--token-budget", help="Tokens of a step.")] = DEFAULT.token_budget,
    max_num_seqs: Annotated[int, option("--max-num-seqs", help="Sequences that run at once.")] = DEFAULT.max_num_seqs,
    at: Annotated[
        list[int] | None, option("--at", metavar="TOKENS", help="Sequences of this length too; may be repeated.")
    ] = None,
    seed: Annotated[int, option("--seed", help="Of random weights.")] = DEFAULT.seed,
    as_json: Annotated[bool, option("--json", help="Print JSON, schema pagesim.validate-capacity/1.")] = False,
) -> None:
    """Fill a device with reservations until it refuses, start an engine, fill its caches; each beside its prediction.

    Exit status: 0 if they agree, 1 if they differ, 2 on wrong usage and when nothing could be probed.
    """
    from pagesim.commands.kernel import one_line_errors
    from pagesim.engine.errors import EngineError
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.sizes import parse_bytes

    if memory is None and kv_bytes is None and num_blocks is None and device == "cpu":
        memory = CPU_MEMORY
    try:
        config = EngineConfig(
            model, device, dtype, block_size=block_size, num_blocks=num_blocks, utilization=utilization,
            memory=None if memory is None else parse_bytes(memory, "--memory"),
            kv_bytes=None if kv_bytes is None else parse_bytes(kv_bytes, "--kv-bytes"),
            token_budget=token_budget, max_num_seqs=max_num_seqs, max_model_len=max_model_len, seed=seed,
        )  # fmt: skip
    except EngineError as error:
        raise UsageError(str(error)) from error
    with one_line_errors():
        result = carry_out(config, at or [])
    if as_json:
        print(dumps(result.document()))
    else:
        _show(result)
    if not result.agrees:
        raise typer.Exit(1)


def carry_out(config: EngineConfig, at: list[int]) -> CapacityResult:
    """With progress on a terminal. Raises UsageError, GeometryError and EngineError."""
    from pagesim.sim.console import progress
    from pagesim.validate.capacity.run import lengths_of, validate_capacity

    assert config.max_model_len is not None
    lengths = lengths_of(config.max_model_len, at)
    with progress("reservations placed, then caches filled", None) as advance:
        return validate_capacity(config, lengths, advance)


def verdict(result: CapacityResult) -> str:
    """One sentence."""
    judged = [row for row in result.rows if row.agrees is not None]
    differing = sum(row.agrees is False for row in judged)
    probed = result.probed
    what = f"{probed.count:,} reservations of {result.max_model_len:,} tokens on {probed.device}"
    if result.agrees:
        return f"They agree: {what}, and all {len(judged)} counts are as predicted."
    return (
        f"They differ: {what}; {differing} of {len(judged)} counts are not as predicted, {len(result.findings)} faults."
    )


def _show(result: CapacityResult) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from pagesim.commands.kernel import wide_console

    console = wide_console()
    started = result.started
    for line in () if isinstance(started, str) else started.report:
        console.print(line, soft_wrap=True)
    table = Table("", "predicted", "measured", "agrees", "", box=SIMPLE, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for row in result.rows:
        agrees = {True: "yes", False: "NO", None: "-"}[row.agrees]
        table.add_row(row.what, _predicted(row), _number(row.measured), agrees, row.remark)
    console.print(table)
    for line in result.findings:
        console.print(line, soft_wrap=True)
    console.print(verdict(result), soft_wrap=True)


def _predicted(row: Row) -> str:
    if row.predicted is None:
        return "-"
    least, most = row.predicted
    if least == most:
        return _number(least)
    return f"{least:,} or {most:,}" if most == least + 1 else f"{least:,} to {most:,}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
