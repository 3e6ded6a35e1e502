"""The engine's options, for every command that starts one: declared once, with the defaults of `EngineConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from pagesim.engine.config import Backend, EngineConfig, Policy
from pagesim.engine.errors import EngineError
from pagesim.sim.errors import UsageError

PANEL = "Engine"
SIZES = ("kv_bytes", "memory")  # written as 2GiB, 512MiB or plain bytes


def _option(*names: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=help, metavar=metavar, rich_help_panel=PANEL)
    return info


OPTIONS: dict[str, Any] = {
    "model": Annotated[
        str, _option("--model", help="A directory, a hub id, random:tiny, random:qwen2.5-0.5b, random:CONFIG.json.")
    ],
    "device": Annotated[str, _option("--device", help="cpu, cuda or cuda:N.")],
    "dtype": Annotated[str, _option("--dtype", help="auto (as the config says), float32, bfloat16 or float16.")],
    "cache": Annotated[
        str, _option("--cache", help="paged, reservation, or exact-fit[:first|best|next|worst].", metavar="KIND")
    ],
    "block_size": Annotated[int, _option("--block-size", help="Tokens in a block.")],
    "num_blocks": Annotated[int | None, _option("--num-blocks", help="The pool, in blocks,")],
    "kv_bytes": Annotated[str | None, _option("--kv-bytes", metavar="SIZE", help="or in bytes, like 512MiB,")],
    "memory": Annotated[
        str | None,
        _option("--memory", metavar="SIZE", help="or what weights, activations and cache may take together,"),
    ],
    "utilization": Annotated[float, _option("--utilization", help="or what this part of a card leaves.")],
    "token_budget": Annotated[int, _option("--token-budget", help="Tokens of a step.")],
    "max_num_seqs": Annotated[int, _option("--max-num-seqs", help="Sequences that run at once.")],
    "max_model_len": Annotated[
        int | None, _option("--max-model-len", help="Longest sequence, prompt and output. [default: the model's]")
    ],
    "prefix_caching": Annotated[bool, _option("--prefix-caching", help="Share the blocks of equal beginnings.")],
    "chunked_prefill": Annotated[
        bool, _option("--chunked-prefill/--no-chunked-prefill", help="Whether a prompt may be split over steps.")
    ],
    "long_prefill_threshold": Annotated[
        int | None, _option("--long-prefill-threshold", help="Most tokens of one request in a step.")
    ],
    "reserve_full_isl": Annotated[
        bool,
        _option("--reserve-full-isl/--no-reserve-full-isl", help="Admit only if all of a request's tokens fit now."),
    ],
    "watermark": Annotated[float, _option("--watermark", help="Part of the pool that stays free at admissions.")],
    "policy": Annotated[str, _option("--policy", metavar="|".join(get_args(Policy)), help="Who goes first.")],
    "backend": Annotated[str, _option("--backend", metavar="|".join(get_args(Backend)), help="Whose attention.")],
    "eager": Annotated[bool, _option("--eager", help="No CUDA graphs.")],
    "seed": Annotated[int, _option("--seed", help="Of random weights, and of requests that bring none.")],
}


def takes_engine(command: Callable[..., None]) -> Callable[..., None]:
    """Put the engine's options behind the command's own; it is called with their `EngineConfig` as `config`.

    The command is called with keywords only. An option that makes no sense is a UsageError.
    """
    return _taking_engine(command, inspect.Parameter.empty)


def may_take_engine(command: Callable[..., None]) -> Callable[..., None]:
    """The same, but without --model `config` is None; any other option of the engine is a UsageError then."""
    return _taking_engine(command, None)


def _taking_engine(command: Callable[..., None], no_model: Any) -> Callable[..., None]:
    own = inspect.signature(command, eval_str=True).parameters
    defaults = {
        name: field.default
        for name, field in EngineConfig.__dataclass_fields__.items()
        if name in OPTIONS and name != "model"
    }
    model = inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, annotation=OPTIONS["model"], default=no_model)
    engine = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=OPTIONS[name], default=default)
        for name, default in defaults.items()
    ]
    first = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in own.items() if name != "config"
    ]

    @functools.wraps(command)
    def with_config(**said: Any) -> None:
        options = {name: said.pop(name) for name in OPTIONS}
        config = None if options["model"] is None else _config(options)
        for name, default in defaults.items():
            if config is None and options[name] != default:
                raise UsageError(f"--{name.replace('_', '-')} is given, and no engine; accepted: together with --model")
        command(config=config, **said)

    shown: Any = with_config
    shown.__signature__ = inspect.Signature([model, *first, *engine])
    shown.__annotations__ = {each.name: each.annotation for each in [model, *first, *engine]}
    del shown.__wrapped__
    return with_config


def _config(options: dict[str, Any]) -> EngineConfig:
    from pagesim.sim.sizes import parse_bytes

    for name in SIZES:
        if options[name] is not None:
            options[name] = parse_bytes(options[name], f"--{name.replace('_', '-')}")
    try:
        return EngineConfig(**options)
    except EngineError as error:
        raise UsageError(str(error)) from error
