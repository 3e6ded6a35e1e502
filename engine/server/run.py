"""Starts the server and ends it: uvicorn in the main thread, the engine in its own, signals."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from pagesim.engine.server.app import make_app
from pagesim.engine.server.config import ServerConfig
from pagesim.engine.server.listener import listen
from pagesim.engine.server.worker import Worker

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine


def serve(engine: Engine, config: ServerConfig, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
    """Serve at a bound socket until SIGTERM or SIGINT, in the main thread.

    `on_ready` is told the address once clients may connect. At a signal it takes no more connections, lets requests in
    flight go on for `grace_s`, and returns; at a second SIGINT it returns at once. Raises ConfigError if it cannot
    listen, and what broke the engine, if anything does.
    """
    worker = make_worker(engine, config)
    server = make_server(worker, config)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again at its end, when all is done
        signal.signal(number, lambda number, frame: None)
    on_ready(listen(listener, config))
    try:
        server.run(sockets=[listener])
    finally:
        worker.stop()
    if worker.failure is not None:
        raise worker.failure


def make_worker(engine: Engine, config: ServerConfig) -> Worker:
    """The engine's thread, not yet started."""
    return Worker(engine, config.name or engine.model.name, config.max_waiting)


def make_server(worker: Worker, config: ServerConfig) -> uvicorn.Server:
    """The HTTP server around it. It ends by itself if the engine breaks."""

    def stop() -> None:
        server.should_exit = True

    server = uvicorn.Server(
        uvicorn.Config(
            make_app(worker, config, stop),
            lifespan="on",
            loop="asyncio",
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=config.grace_s,
        )
    )
    return server
