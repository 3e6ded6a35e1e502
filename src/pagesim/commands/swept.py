"""The options of `pagesim run` for commands that try several values of each: one definition, read off `run` itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from pagesim.commands.run import run

if TYPE_CHECKING:
    from pagesim.sim.config import RunConfig
    from pagesim.sim.sweep.axes import Axis

LEFT_OUT = {  # they say what is done with one run, or are the design's own
    "context", "scenario", "steps", "runs", "seed", "check", "as_json", "html", "no_html", "out",
}  # fmt: skip
NOT_AN_AXIS = "allocators"  # all of them see the same requests
WITH_COMMAS = ("slo",)  # whose values have commas in them: said again for another
PANEL = "Options of `pagesim run`, each with one value, several or a range"


@dataclass(frozen=True, slots=True)
class RunOption:
    """An option of `run`: the type of its value, what it is when nothing is said, and how it is declared."""

    kind: type
    default: Any
    info: typer.models.OptionInfo


def _run_options() -> dict[str, RunOption]:
    options = {}
    for name, parameter in inspect.signature(run, eval_str=True).parameters.items():
        if name not in LEFT_OUT:
            hint, info = get_args(parameter.annotation)
            kinds = [kind for kind in get_args(hint) if kind is not type(None)] if type(hint) is UnionType else [hint]
            options[name] = RunOption(kinds[0], parameter.default, info)
    return options


RUN_OPTIONS = _run_options()


def with_run_options(*not_here: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command every option of `run` but those; it gets what was said, by parameter, as `said`."""
    options = {name: option for name, option in RUN_OPTIONS.items() if name not in not_here}

    def widened(command: Callable[..., None]) -> Callable[..., None]:
        own = [each for name, each in inspect.signature(command, eval_str=True).parameters.items() if name != "said"]

        def call(**given: Any) -> None:
            said = {name: given.pop(name) for name in options}
            command(**given, said={name: texts for name, texts in said.items() if texts})

        call.__doc__ = command.__doc__
        swept = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_declared(option))
                 for name, option in options.items()]  # fmt: skip
        call.__signature__ = inspect.Signature([*own, *swept])  # type: ignore[attr-defined]
        return call

    return widened


def _declared(option: RunOption) -> Any:
    info = option.info
    flags = (str(info.default), *(info.param_decls or ()))
    shown = f" [default: {option.default}]" if option.default not in (None, False) else ""
    metavar = "on|off" if option.kind is bool else info.metavar or f"<{option.kind.__name__}>"
    return Annotated[
        list[str] | None,
        typer.Option(*flags, help=f"{info.help}{shown}", metavar=metavar, rich_help_panel=PANEL, show_default=False),
    ]


def axes_of(said: Mapping[str, Any]) -> list[Axis]:
    """An axis for each option that was said, in the order of `run`; the allocators are one value of one.

    What was said is a list of texts, which commas part, or a tuple of texts, which they do not. Raises UsageError.
    """
    return [_axis(name, option, said[name]) for name, option in RUN_OPTIONS.items() if name in said]


def _axis(name: str, option: RunOption, texts: list[str] | tuple[str, ...]) -> Axis:
    from pagesim.sim.sweep.axes import KINDS, LOADS, WHOLE_TEXT, axis

    if name == NOT_AN_AXIS:
        return axis(name, [",".join(texts)], WHOLE_TEXT)
    kind = LOADS if name == "load" else WHOLE_TEXT if name in WITH_COMMAS else KINDS[option.kind]
    return axis(name, texts, replace(kind, commas=kind.commas and isinstance(texts, list)))


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every option: what is said, and its default for what is not."""
    return {name: option.default for name, option in RUN_OPTIONS.items()} | dict(values)


def config_of(options: Mapping[str, Any]) -> RunConfig:
    """One run, with seed 0, of the value of every option. Raises UsageError and GeometryError."""
    from pagesim.commands.run_config import run_config

    return run_config({**options, "seed": 0, "runs": 1, "steps": None})


def option_types() -> dict[str, type]:
    """The type of each option as a column has it."""
    return {name: str if option.kind is Path else option.kind for name, option in RUN_OPTIONS.items()}
