"""Clients who leave, too many of them, slow ones, and an engine that breaks."""

from __future__ import annotations

import pytest

for library in ("torch", "openai"):
    pytest.importorskip(library, reason="needs pagesim[engine,serve,dev]")

import asyncio
import json
import socket
import threading
from typing import Any

import httpx
import openai
import torch
from running_server import Running, running

from pagesim.engine import Engine, EngineConfig
from pagesim.engine.server.app import make_app
from pagesim.engine.server.config import ServerConfig
from pagesim.engine.server.listener import bound
from pagesim.engine.server.run import make_worker

LONG = {"model": "random:tiny", "prompt": "a", "max_tokens": 4000, "temperature": 0}


def test_a_stream_that_is_closed_gives_its_blocks_back(server: Running) -> None:
    before = server.metrics()
    with server.client() as client:
        stream = client.completions.create(**LONG, n=3, stream=True)
        next(iter(stream))
        assert server.metrics()["vllm:num_requests_running"] == 3
        stream.close()
        after = server.wait_until_idle()
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] < 3 * 4000
    assert after["vllm:request_success_total"] - before["vllm:request_success_total"] == 3, "as aborted"


def test_a_caller_who_hangs_up_gives_its_blocks_back(server: Running) -> None:
    before = server.metrics()
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/completions", json=LONG, timeout=0.3)
    after = server.wait_until_idle()
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] < 4000


def test_too_many_are_turned_away_and_may_come_again() -> None:
    with running({"max_waiting": 2}, max_num_seqs=1) as server, server.client() as client:
        streams = [client.completions.create(**LONG, stream=True)]
        next(iter(streams[0]))
        for count in (1, 2):
            streams.append(client.completions.create(**LONG, stream=True))
            assert server.metrics()["vllm:num_requests_waiting"] == count
        with pytest.raises(openai.InternalServerError) as refused:
            client.completions.create(**LONG)
        assert refused.value.status_code == 503
        assert int(refused.value.response.headers["Retry-After"]) > 0
        assert server.metrics()["vllm:num_requests_waiting"] == 2
        streams[1].close()  # it waited, and leaves without ever having run
        server.wait_for(lambda metrics: metrics["vllm:num_requests_waiting"] == 1)
        for stream in (streams[0], streams[2]):
            stream.close()
        server.wait_until_idle()
        assert client.completions.create(**(LONG | {"max_tokens": 3})).usage is not None


def test_priority_and_salts_are_the_engines() -> None:
    """A later request of lower number overtakes; equal prompts share blocks if their salts are equal."""
    prompt = list(range(64))
    with running({}, max_num_seqs=1, policy="priority", prefix_caching=True) as server, server.client() as client:
        ended: list[int] = []

        def ask(priority: int) -> None:
            client.completions.create(**(LONG | {"max_tokens": 300}), extra_body={"priority": priority})
            ended.append(priority)

        with client.completions.create(**LONG, stream=True) as first:
            next(iter(first))
            threads = [threading.Thread(target=ask, args=(priority,)) for priority in (5, -5)]
            for count, thread in enumerate(threads, 1):
                thread.start()
                server.wait_for(lambda metrics, count=count: metrics["vllm:num_requests_waiting"] == count)
        for thread in threads:
            thread.join()
        assert ended == [-5, 5]

        hits = []
        for salt in ("x", "x", "y"):
            before = server.wait_until_idle()["vllm:prefix_cache_hits_total"]
            client.completions.create(model="random:tiny", prompt=prompt, max_tokens=1, extra_body={"cache_salt": salt})
            hits.append(server.metrics()["vllm:prefix_cache_hits_total"] - before)
        assert hits == [0, 48, 0], "the last block of a prompt is always computed"


def test_a_reader_who_never_reads_stalls_nobody() -> None:
    """Below HTTP, where a full send buffer is a `send` that does not return."""

    async def drive() -> None:
        engine = Engine(EngineConfig("random:tiny", num_blocks=600))
        app = make_app(make_worker(engine, ServerConfig()), ServerConfig(), lambda: None)
        async with app.router.lifespan_context(app):
            blocked = asyncio.create_task(call(app, LONG | {"max_tokens": 300, "stream": True}, asyncio.Event()))
            answer = await asyncio.wait_for(call(app, LONG | {"max_tokens": 300}, None), 20)
            assert len(answer) > 300
            while engine.has_work:
                await asyncio.sleep(0.01)
            assert engine.scheduler.totals.sampled_tokens == 600, "both were served to their ends"
            assert engine.cache.blocks_used == 0
            assert not blocked.done()
            blocked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await blocked

    asyncio.run(drive())


async def call(app: Any, body: dict[str, Any], never: asyncio.Event | None) -> bytes:
    """One request to an ASGI application. `never`: what every `send` waits for."""
    parts: list[bytes] = []
    unread = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Any:
        if unread:
            return unread.pop()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if never is not None:
            await never.wait()
        parts.append(message.get("body", b""))

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "headers": [],
             "path": "/v1/completions", "raw_path": b"/v1/completions", "query_string": b"", "root_path": "",
             "scheme": "http", "client": None, "server": None}  # fmt: skip
    await app(scope, receive, send)
    return b"".join(parts)


def test_a_token_is_sent_at_once() -> None:
    """asyncio turns Nagle's delay, 40 ms a token, off only on sockets that say what they are."""
    with bound(ServerConfig(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_memory_that_runs_out_ends_the_requests_of_that_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with running({}, max_num_seqs=2) as server, server.client() as client:
        stream = client.completions.create(**LONG, n=3, stream=True)  # two run, one waits
        next(iter(stream))
        waiting = client.completions.create(**(LONG | {"max_tokens": 5}), stream=True)
        assert server.engine is not None
        run = server.engine.runner.run

        def short(step: Any) -> Any:
            monkeypatch.setattr(server.engine.runner, "run", run)
            raise torch.OutOfMemoryError

        monkeypatch.setattr(server.engine.runner, "run", short)
        with pytest.raises(openai.APIError, match=r"out of memory in step .* 2 sequences .*blocks"):
            list(stream)
        assert list(waiting)[-1].choices[0].finish_reason == "length"
        server.wait_until_idle()


def test_an_engine_that_breaks_tells_everybody_and_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with running({}) as server, server.client() as client:
        stream = client.completions.create(**LONG, stream=True)
        next(iter(stream))

        def broken() -> None:
            raise RuntimeError("a bug of ours")

        monkeypatch.setattr(server.engine, "step", broken)
        with pytest.raises(openai.APIError, match="a bug of ours"):
            list(stream)
        while health := status_of(server):
            assert health == 503


def status_of(server: Running) -> int | None:
    """Of its health. None: it takes no connections."""
    try:
        return server.http.get("/health").status_code
    except httpx.TransportError:
        return None
