"""The routes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pagesim.engine.server.answers import Answer
from pagesim.engine.server.api_error import ApiError
from pagesim.engine.server.config import ServerConfig
from pagesim.engine.server.connection import CancelOnDisconnect, EventStream
from pagesim.engine.server.job import Job, chat_job, completion_job
from pagesim.engine.server.protocol import Body, ChatBody, CompletionBody, read_body
from pagesim.engine.server.worker import Worker


class Api:
    """Answers requests from a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._name = worker.name
        self._created_s = int(time.time())

    async def completions(self, request: Request) -> Response:
        """POST /v1/completions."""
        body = read_body(await request.body(), CompletionBody)
        return await self._answer(body, completion_job(body), is_chat=False)

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        body = read_body(await request.body(), ChatBody)
        return await self._answer(body, chat_job(body), is_chat=True)

    async def models(self, request: Request) -> Response:
        """GET /v1/models: the one there is."""
        return _json({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """GET /v1/models/NAME."""
        self._check_name(request.path_params["name"])
        return _json(self._model())

    async def health(self, request: Request) -> Response:
        """GET /health: 200 while the engine can take requests."""
        if self._worker.failure is not None:
            raise ApiError(503, f"the engine has stopped: {self._worker.failure}")
        return _json({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        return Response(self._worker.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _answer(self, body: Body, job: Job, *, is_chat: bool) -> Response:
        if body.model is not None:
            self._check_name(body.model)
        id = ("chatcmpl-" if is_chat else "cmpl-") + secrets.token_hex(12)
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        answer = Answer(id, self._name, int(time.time()), is_chat, bool(body.return_token_ids), with_usage)
        ticket = self._worker.submit(id, job)
        streams = False
        try:
            prompt_tokens = await ticket.accepted()
            if body.stream:
                streams = True  # from here on the stream gives the ticket back
                return EventStream(answer.events(ticket, prompt_tokens), lambda: self._worker.abort(ticket))
            return _json(await answer.whole(ticket, prompt_tokens))
        finally:
            if not streams:
                self._worker.abort(ticket)

    def _check_name(self, name: str) -> None:
        if name != self._name:
            message = f"the model {name!r} is not served; accepted: {self._name!r}"
            raise ApiError(404, message, param="model", code="model_not_found")

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._name,
            "object": "model",
            "created": self._created_s,
            "owned_by": "pagesim",
            "max_model_len": self._worker.engine.max_model_len,
        }


def make_app(worker: Worker, config: ServerConfig, on_failure: Callable[[], None]) -> Starlette:
    """The routes, with the worker's thread started and stopped around them. `on_failure`: the engine is broken."""
    api = Api(worker)
    too_large = ApiError(413, f"the body is too large; accepted: {config.max_body_bytes} bytes")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        worker.start(asyncio.get_running_loop(), on_failure)
        yield
        await asyncio.to_thread(worker.stop)

    return Starlette(
        routes=[
            Route("/v1/completions", api.completions, methods=["POST"]),
            Route("/v1/chat/completions", api.chat, methods=["POST"]),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.model),
            Route("/health", api.health),
            Route("/metrics", api.metrics),
        ],
        middleware=[
            Middleware(CancelOnDisconnect, max_body_bytes=config.max_body_bytes, too_large=_refusal(too_large))
        ],
        exception_handlers={ApiError: _refuse, HTTPException: _refuse_route},
        lifespan=lifespan,
    )


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _refusal(error: ApiError) -> Response:
    return _json(error.body(), error.status, error.headers)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _refusal(error)


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    return _json(what.body(), error.status_code, dict(error.headers or {}))
