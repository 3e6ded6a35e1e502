"""A headless Chromium that is told what to do through its DevTools, and a server of files on 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_S = 120


def found() -> str | None:
    """The command of a Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of the files in `folder`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Page:
    """One tab. `value` is what an expression of JavaScript yields, awaited."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=600)
        self._sent = 0

    def call(self, method: str, **words: Any) -> Any:
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": words}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._sent:
                return answer["result"]

    def value(self, expression: str) -> Any:
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return done["result"].get("value")

    def wait_for(self, expression: str, within_s: float) -> Any:
        """What the expression yields as soon as that is something; at last what it yields."""
        end = time.monotonic() + within_s
        while not (value := self.value(expression)) and time.monotonic() < end:
            time.sleep(0.5)
        return value

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def opened(url: str, folder: Path) -> Iterator[Page]:
    """`url` in a browser that keeps its files in `folder`."""
    command = found()
    assert command is not None
    options = ["--headless=new", "--disable-gpu", "--remote-debugging-port=0", "--remote-allow-origins=*"]
    alone = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
    words = [command, *options, *alone, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page = Page(_address(folder / "DevToolsActivePort"))
        try:
            page.call("Page.navigate", url=url)
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait()


def _address(port_file: Path) -> str:
    end = time.monotonic() + START_S
    while not (port_file.is_file() and port_file.read_text().strip()):
        assert time.monotonic() < end, "the browser did not start"
        time.sleep(0.1)
    port = port_file.read_text().split()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
        tabs = json.load(answer)
    address: str = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
    return address
