"""A client of one server, over the standard library's HTTP: a connection for each request, closed behind it.

Left out: keys, redirects, proxies, and a second try. What a server does not answer is what is to be found out.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from urllib.parse import urlsplit

from pagesim.sim.errors import UsageError
from pagesim.validate.server.errors import GoneError, NonsenseError, RefusedError

MOST_BYTES = 2**24  # of an answer that is read whole, and of a line of one that is not
PATIENCE_S = 10.0  # with a question that is answered at once, or not
SHOWN = 200  # characters of what a server says


class Server:
    """`address`: http://HOST:PORT, as a person gives it. `patience_s`: how long it may be silent
    in the middle of an answer.

    Raises UsageError on an address that is none.
    """

    def __init__(self, address: str, patience_s: float) -> None:
        self.address = address.rstrip("/")
        self._patience_s = patience_s
        self._open: set[HTTPConnection] = set()
        self._lock = Lock()
        self._closed = False
        try:
            parts = urlsplit(self.address)
            self._secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        except ValueError:
            parts, self._host = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not self._host or parts.query or parts.fragment:
            raise UsageError(f"--server {address}; accepted: the address of a server, like http://127.0.0.1:8000")
        self._prefix = parts.path.removesuffix("/v1")

    def get(self, path: str) -> bytes:
        """Raises GoneError, NonsenseError, and RefusedError where it is anything but 200."""
        with self._answer("GET", path, None, min(PATIENCE_S, self._patience_s)) as answer:
            try:
                body = answer.read(MOST_BYTES + 1)
            except (OSError, HTTPException) as error:
                raise self._gone(error) from error
        if len(body) > MOST_BYTES:
            raise NonsenseError(f"GET {path}: more than {MOST_BYTES} bytes")
        return body

    def lines(self, path: str, body: bytes) -> Iterator[bytes]:
        """POST a JSON body; the lines of the answer as they come, until it ends or breaks off. Raises as `get` does."""
        with self._answer("POST", path, body, self._patience_s) as answer:
            while True:
                try:
                    line = answer.readline(MOST_BYTES)
                except (OSError, HTTPException, ValueError, AttributeError) as error:  # closed under us, the last two
                    raise self._gone(error) from error
                if not line:
                    return
                yield line

    def close(self) -> None:
        """Break off everything that is going on; nothing is asked any more."""
        with self._lock:
            self._closed = True
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _answer(self, method: str, path: str, body: bytes | None, patience_s: float) -> Iterator[HTTPResponse]:
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=patience_s)
        with self._lock:
            if self._closed:
                raise GoneError("the replay has been broken off")
            self._open.add(connection)
        try:
            try:
                headers = {"Content-Type": "application/json"} if body is not None else {}
                connection.request(method, self._prefix + path, body, headers)
                answer = connection.getresponse()
            except OSError as error:
                raise self._gone(error) from error
            except HTTPException as error:
                raise NonsenseError(f"{method} {path}: not an answer of HTTP ({_text(error)})") from error
            if answer.status != 200:
                raise RefusedError(f"{method} {path}: {answer.status} {answer.reason}: {_beginning(answer)}")
            yield answer
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _gone(self, error: Exception) -> GoneError:
        return GoneError(f"{self.address} does not answer ({_text(error)})")


def _beginning(answer: HTTPResponse) -> str:
    try:
        said = answer.read(SHOWN).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return "(and nothing more)"
    return " ".join(said.split()) or "(and nothing more)"


def _text(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())[:SHOWN]
