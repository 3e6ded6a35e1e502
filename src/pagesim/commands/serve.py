"""`pagesim serve`: the engine behind OpenAI's protocol."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pagesim.commands.engine_options import takes_engine
from pagesim.commands.kernel import one_line_errors
from pagesim.engine.config import EngineConfig
from pagesim.engine.server.config import ServerConfig

DEFAULT = ServerConfig()


@takes_engine
def serve(
    config: EngineConfig,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = DEFAULT.host,
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = DEFAULT.port,
    name: Annotated[
        str | None, typer.Option("--served-model-name", help="What the model is called. [default: as --model]")
    ] = DEFAULT.name,
    max_waiting: Annotated[
        int, typer.Option(help="Samples that may wait for admission; past that, requests get 503 and Retry-After.")
    ] = DEFAULT.max_waiting,
    max_body_bytes: Annotated[int, typer.Option(help="Largest request.")] = DEFAULT.max_body_bytes,
    grace: Annotated[
        int, typer.Option(metavar="SECONDS", help="How long requests in flight may go on after SIGTERM.")
    ] = DEFAULT.grace_s,
    steps: Annotated[
        str | None, typer.Option(metavar="FILE", help="A line of JSON for each step, in FILE.partial until the end.")
    ] = None,
) -> None:
    """Serve /v1/completions, /v1/chat/completions, /v1/models, /health and /metrics until SIGTERM or Ctrl-C.

    The address is printed on stdout once clients may connect. There are no keys and no TLS: it is for this machine.
    """
    with one_line_errors():
        from pagesim.commands.engine_run import engine_with_steps
        from pagesim.engine.server.listener import bound
        from pagesim.engine.server.run import serve as run

        options = ServerConfig(host, port, max_waiting, max_body_bytes, grace, name)
        with bound(options) as listener, engine_with_steps(config, steps) as engine:
            print("\n".join(engine.report()), file=sys.stderr, flush=True)
            run(engine, options, listener, lambda address: print(address, flush=True))
