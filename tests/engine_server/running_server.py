"""A server of `random:tiny` in this process, on a port of its own. A test that imports it is skipped without one."""

from __future__ import annotations

import pytest

for library in ("torch", "starlette", "uvicorn", "prometheus_client", "openai"):
    pytest.importorskip(library, reason="needs pagesim[engine,serve,dev]")

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai

from pagesim.engine import Engine, EngineConfig
from pagesim.engine.server.config import ServerConfig
from pagesim.engine.server.listener import bound, listen
from pagesim.engine.server.run import make_server, make_worker

PATIENCE_S = 20  # for what takes milliseconds on an idle machine


class Running:
    """A server that listens, and what a test asks of it."""

    def __init__(self, engine: Engine | None, address: str) -> None:
        self.engine = engine
        self.address = address
        self.http = httpx.Client(base_url=address, timeout=PATIENCE_S, verify=False)  # no certificates to load

    def client(self) -> openai.OpenAI:
        http = httpx.Client(verify=False)
        return openai.OpenAI(
            base_url=f"{self.address}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S, http_client=http
        )

    def post(self, path: str, body: Any) -> httpx.Response:
        given = {"content": body} if isinstance(body, (str, bytes)) else {"json": body}
        return self.http.post(path, **given)

    def metrics(self) -> dict[str, float]:
        """Name to value, summed over labels."""
        sums: dict[str, float] = {}
        for line in self.http.get("/metrics").text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.partition(" ")
                name = name.partition("{")[0]
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums

    def wait_for(self, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """The first metrics of which it holds; fails in time."""
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            metrics = self.metrics()
            if condition(metrics):
                return metrics
            time.sleep(0.01)
        pytest.fail(f"did not come about: {metrics}")

    def wait_until_idle(self) -> dict[str, float]:
        return self.wait_for(is_idle)


def is_idle(metrics: dict[str, float]) -> bool:
    held = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    return not any(metrics[name] for name in held)


@contextmanager
def running(server_options: dict[str, Any], **engine_options: Any) -> Iterator[Running]:
    engine = Engine(EngineConfig("random:tiny", **({"num_blocks": 600, "max_model_len": 4096} | engine_options)))
    config = ServerConfig(**({"port": 0, "grace_s": 1} | server_options))
    worker = make_worker(engine, config)
    server = make_server(worker, config)
    with bound(config) as listener:
        address = listen(listener, config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            made = Running(engine, address)
            with made.http:
                yield made
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
    if worker.failure is None:
        engine.cache.check()
        assert engine.cache.blocks_used == 0
