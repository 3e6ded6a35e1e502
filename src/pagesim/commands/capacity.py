"""`pagesim capacity`: what fits into a card, or into a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.sim.pool import Engine

if TYPE_CHECKING:
    from pagesim.sim.lengths import LengthDistribution
    from pagesim.sim.poolplan import PoolOptions

MAX_MODEL_LEN = 2048
SIZE = "SIZE"  # shown in the help: 2GiB, 942MiB, 1.8647GB or plain bytes


def capacity(
    model: Annotated[str | None, typer.Option(help="A built-in name, or the path of a config.json.")] = None,
    bytes_per_token: Annotated[
        int | None, typer.Option(help="Cache per token on one rank, for want of a model.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="The card that decides the pool, like t4 or h100.")] = None,
    kv_bytes: Annotated[str | None, typer.Option(metavar=SIZE, help="The pool's bytes on one rank.")] = None,
    num_blocks: Annotated[int | None, typer.Option(help="The pool's blocks, as an engine logs them.")] = None,
    utilization: Annotated[
        float | None, typer.Option(help="Part of the card that the engine may use. [default: vLLM's 0.92]")
    ] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens in a block. [default: 16]")] = None,
    max_model_len: Annotated[int, typer.Option(help="Longest sequence, prompt and answer, tokens.")] = MAX_MODEL_LEN,
    at: Annotated[
        list[int] | None, typer.Option(metavar="TOKENS", help="Sequences of this length too; may be repeated.")
    ] = None,
    lengths: Annotated[
        str, typer.Option(help="For the mean tail: note, fixed:TOKENS, uniform:LOW:HIGH, lognormal:MEAN:MEDIAN.")
    ] = "note",
    kv_dtype: Annotated[str | None, typer.Option(help="auto, bf16, fp16, fp32, fp8, int8. [default: auto]")] = None,
    tp: Annotated[int | None, typer.Option(help="Tensor-parallel ranks. [default: 1]")] = None,
    pp: Annotated[int | None, typer.Option(help="Pipeline stages. [default: 1]")] = None,
    hybrid: Annotated[
        bool, typer.Option("--hybrid/--no-hybrid", help="Whether windowed layers keep only their window.")
    ] = True,
    engine: Annotated[Engine, typer.Option(help="Whose rounding and null block.")] = Engine.VLLM,
    weights_bytes: Annotated[str | None, typer.Option(metavar=SIZE, help="Weights on one rank.")] = None,
    activation_bytes: Annotated[str | None, typer.Option(metavar=SIZE, help="Peak activations.")] = None,
    workspace_bytes: Annotated[str | None, typer.Option(metavar=SIZE, help="CUDA context and workspaces.")] = None,
    noncache_bytes: Annotated[str | None, typer.Option(metavar=SIZE, help="All that is not cache, in one.")] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(help="Token budget of a step, for the estimate of activations. [default: 8192]")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(help="Cap on running sequences: shown beside, and for the estimate of activations.")
    ] = None,
    card: Annotated[
        str | None, typer.Option(help="The card for reservations beside the weights alone. [default: --device]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.capacity/1.")] = False,
) -> None:
    """Say what fits: reservations, sequences by length, the waste of the last block.

    One of --device, --kv-bytes and --num-blocks decides the pool; --model or --bytes-per-token says what a token costs.
    """
    from pagesim.commands.capacity_tables import show
    from pagesim.sim.budget import BudgetOptions
    from pagesim.sim.capacity_report import Questions, capacity_report
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.poolplan import PoolOptions

    budget = BudgetOptions(
        **_said(
            utilization=utilization,
            weights_bytes=_bytes(weights_bytes, "--weights-bytes"),
            activation_bytes=_bytes(activation_bytes, "--activation-bytes"),
            workspace_bytes=_bytes(workspace_bytes, "--workspace-bytes"),
            noncache_bytes=_bytes(noncache_bytes, "--noncache-bytes"),
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
        )
    )
    options: PoolOptions = PoolOptions(
        **_said(
            model=model, bytes_per_token=bytes_per_token, device=device, kv_bytes=_bytes(kv_bytes, "--kv-bytes"),
            num_blocks=num_blocks, block_size=block_size, kv_dtype=kv_dtype, tp=tp, pp=pp,
        ),
        windows=hybrid, engine=engine, budget=budget,
    )  # fmt: skip
    questions = Questions(max_model_len, _lengths(lengths, max_model_len), tuple(at or ()), max_num_seqs, card)
    report = capacity_report(options, questions)
    if as_json:
        print(dumps(report))
    else:
        show(report)


def _said(**options: Any) -> dict[str, Any]:
    """The options that were given: the others keep the defaults of the dataclass."""
    return {name: value for name, value in options.items() if value is not None}


def _lengths(text: str, max_model_len: int) -> LengthDistribution:
    """The note's lengths, or what `text` names; clipped at max_model_len."""
    from pagesim.sim.lengths import NOTE_CONTEXT, note_lengths, parse_lengths

    longest = max(1, max_model_len)  # a bad max_model_len is refused with the other options
    return note_lengths(min(longest, NOTE_CONTEXT)) if text == "note" else parse_lengths(text, longest, "clip")


def _bytes(text: str | None, option: str) -> int | None:
    from pagesim.sim.sizes import parse_bytes

    return None if text is None else parse_bytes(text, option)
