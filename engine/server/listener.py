"""The socket that the server listens at."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pagesim.engine.errors import ConfigError
from pagesim.engine.server.config import ServerConfig

BACKLOG = 2048  # connections that the system keeps until they are accepted


@contextmanager
def bound(config: ServerConfig) -> Iterator[socket.socket]:
    """A socket that has its port; clients may not connect yet. Raises ConfigError."""
    with _refusing(config):
        family, *_, address = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0]
        # asyncio sends small writes at once only on sockets that say they are TCP; a token would wait 40 ms otherwise
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listener:
        with _refusing(config):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        yield listener


def listen(listener: socket.socket, config: ServerConfig) -> str:
    """Let clients connect. Returns the address. Raises ConfigError."""
    with _refusing(config):
        listener.listen(BACKLOG)
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


@contextmanager
def _refusing(config: ServerConfig) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        where = f"host {config.host!r}, port {config.port}"
        raise ConfigError(f"{where}: cannot listen ({reason}); accepted: a free port of this machine") from None
