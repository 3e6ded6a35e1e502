"""A request's place in the event loop: what the engine's thread has to say of it arrives here.

The queue holds at most the tokens of the answer, so that a slow reader stalls nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pagesim.engine.server.api_error import ApiError


@dataclass(frozen=True, slots=True)
class Accepted:
    """The engine took the request on. `prompt_tokens`: of all its prompts."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What one token added to a choice. `text` may lag behind. `finish_reason`: "stop" or "length" with the last."""

    choice: int
    text: str
    token_id: int
    finish_reason: str | None


News = Accepted | Delta | ApiError


class Ticket:
    """`id`: the answer's. `arrived_s`: on the engine's clock. `open_choices`: those that have not ended."""

    def __init__(self, id: str, num_choices: int, arrived_s: float) -> None:
        self.id = id
        self.num_choices = num_choices
        self.arrived_s = arrived_s
        self.open_choices = num_choices
        self._news: asyncio.Queue[News] = asyncio.Queue()

    def tell(self, news: News) -> None:
        """Called in the event loop."""
        self._news.put_nowait(news)

    async def accepted(self) -> int:
        """The tokens of its prompts, once the engine has it. Raises the ApiError that refuses it."""
        news = await self._news.get()
        if isinstance(news, ApiError):
            self.open_choices = 0
            raise news
        assert isinstance(news, Accepted)
        return news.prompt_tokens

    async def deltas(self) -> AsyncIterator[Delta]:
        """Every token of every choice, to the end. Raises ApiError if the engine fails."""
        while self.open_choices:
            news = await self._news.get()
            if isinstance(news, ApiError):
                self.open_choices = 0
                raise news
            assert isinstance(news, Delta)
            self.open_choices -= news.finish_reason is not None
            yield news
