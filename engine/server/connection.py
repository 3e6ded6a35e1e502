"""Ends the work for a client who has gone, whether the answer is streamed or not.

It reads a request's body whole, up to a limit, and then watches the connection while the routes work. Their task is
cancelled when the connection closes; they give back what they hold in a `finally`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pagesim.engine.server.api_error import ApiError


class CancelOnDisconnect:
    """Middleware. A body of more than `max_body_bytes` is answered with `too_large`."""

    def __init__(self, app: ASGIApp, max_body_bytes: int, too_large: ASGIApp) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._too_large = too_large

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(receive)
        except ApiError:
            await self._too_large(scope, receive, send)
            return
        if body is None:
            return
        work = asyncio.create_task(self._run(scope, body, send))
        gone = asyncio.create_task(_disconnect(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (gone, work):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run(self, scope: Scope, body: bytes, send: Send) -> None:
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if unread:
                return unread.pop()
            await asyncio.Event().wait()  # nothing more comes: the disconnect is seen above
            raise AssertionError

        await self._app(scope, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """None: the client has gone. Raises ApiError 413."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > self._max_body_bytes:
                raise ApiError(413, "too large")
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Sends server-sent events as they come. No stretch of code between the route and here can be cancelled."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], close: Any) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._events = events
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI; `close` is called whatever happens."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._close()
