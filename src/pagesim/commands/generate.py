"""`pagesim generate`: continue a text, and watch it being written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagesim.commands.engine_options import takes_engine
from pagesim.commands.kernel import one_line_errors
from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine
    from pagesim.engine.outputs import RequestOutput

STDIN = "-"


@takes_engine
def generate(
    config: EngineConfig,
    prompt: Annotated[str, typer.Argument(help="The text to continue; - reads it from stdin.")],
    chat: Annotated[bool, typer.Option("--chat", help="Put it to the model as a question, by its template.")] = False,
    max_tokens: Annotated[int, typer.Option(help="Most tokens that are written.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float, typer.Option(help="Draw from the fewest whose probabilities reach p.")] = 1.0,
    n: Annotated[int, typer.Option("-n", help="Continuations.")] = 1,
    fork: Annotated[
        bool, typer.Option("--fork", help="They share the prompt's blocks, and copy one before writing to it.")
    ] = False,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after the end of the text.")] = False,
    steps: Annotated[
        str | None, typer.Option(metavar="FILE", help="A line of JSON for each step of the scheduler.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at the end, schema pagesim.generate/1.")] = False,
) -> None:
    """Continue PROMPT on the engine, streaming the text to stdout. What runs is said on stderr.

    Where a seed matters, --seed is the one: equal seeds give equal texts.
    """
    from pagesim.commands.engine_run import engine_with_steps

    text = _prompt(prompt)
    with one_line_errors():
        from pagesim.engine.sampling import SamplingParams

        sampling = SamplingParams(temperature, top_k, top_p, None, max_tokens, ignore_eos, n=n, fork=fork)
        with engine_with_steps(config, steps) as engine:
            print("\n".join(engine.report()[:4]), file=sys.stderr)
            shown: str | list[int] = text
            if chat:
                shown = engine.model.tokenizer.chat([{"role": "user", "content": text}])
            engine.add_request(shown, sampling, stream_text=True)
            output = _stream(engine, to_stdout=n == 1 and not as_json)
    if as_json:
        _print_json(config, output)
    elif n > 1:
        for sample in output.samples:
            print(f"[{sample.index}] {sample.text}")


def _prompt(said: str) -> str:
    """Raises UsageError on what is not text."""
    if said != STDIN:
        try:
            said.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the prompt {said!r} is not UTF-8; accepted: text") from None
        return said
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not UTF-8 (byte {error.start}); accepted: text") from None


def _stream(engine: Engine, *, to_stdout: bool) -> RequestOutput:
    while True:
        step = engine.step()
        if to_stdout:
            print("".join(token.text for token in step.tokens), end="", flush=True)
        if step.finished:
            if to_stdout:
                print()
            return step.finished[0]


def _print_json(config: EngineConfig, output: RequestOutput) -> None:
    from dataclasses import asdict

    from pagesim.sim.jsontext import dumps

    assert output.first_token_s is not None
    answer: dict[str, Any] = {
        "schema": "pagesim.generate/1",
        "engine": asdict(config),
        "prompt_token_ids": output.prompt_token_ids,
        "samples": [asdict(sample) for sample in output.samples],
        "ttft_s": output.first_token_s - output.arrival_s,
        "e2e_s": output.finished_s - output.arrival_s,
        "preemptions": output.num_preemptions,
    }
    print(dumps(answer))
