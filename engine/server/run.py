"""Starts the server and ends it: a socket, uvicorn in the main thread, signals."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import uvicorn

from pagesim.engine.engine import Engine
from pagesim.engine.errors import ConfigError
from pagesim.engine.server.app import make_app
from pagesim.engine.server.config import ServerConfig
from pagesim.engine.server.worker import Worker

BACKLOG = 2048  # connections that the system keeps until they are accepted


def serve(engine: Engine, config: ServerConfig, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, in the main thread; `on_ready` is told the address once clients may connect.

    At a signal it takes no more connections, lets requests in flight go on for `grace_s`, and returns; at a second
    SIGINT it returns at once. Raises ConfigError if it cannot listen, and what broke the engine, if anything does.
    """
    worker = make_worker(engine, config)
    with listen(config) as listener:
        server = make_server(worker, config)
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again at its end, when all is done
            signal.signal(number, lambda number, frame: None)
        on_ready(address_of(listener))
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


def listen(config: ServerConfig) -> socket.socket:
    """A socket that clients may connect to at once. Raises ConfigError."""
    listener = None
    try:
        family, *_, address = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0]
        # asyncio sends small writes at once only on sockets that say they are TCP; a token would wait 40 ms otherwise
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        reason = getattr(error, "strerror", None) or error
        where = f"host {config.host!r}, port {config.port}"
        raise ConfigError(f"{where}: cannot listen ({reason}); accepted: a free port of this machine") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """Where clients find it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"
