"""Answers in OpenAI's JSON: whole, or as the chunks of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pagesim.engine.server.api_error import ApiError
from pagesim.engine.server.ticket import Delta, Ticket

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What every answer says of itself, and in which of the two shapes. `created_s`: seconds since 1970."""

    id: str
    model: str
    created_s: int
    is_chat: bool
    with_token_ids: bool
    with_usage: bool

    async def whole(self, ticket: Ticket, prompt_tokens: int) -> Json:
        """One object, once every choice has ended. Raises ApiError if the engine fails."""
        choices = [_Choice() for _ in range(ticket.num_choices)]
        async for delta in ticket.deltas():
            choices[delta.choice].take(delta)
        completion_tokens = sum(len(choice.token_ids) for choice in choices)
        shown = [self._whole_choice(index, choice) for index, choice in enumerate(choices)]
        kind = "chat.completion" if self.is_chat else "text_completion"
        return self._head(kind) | {"choices": shown, "usage": usage(prompt_tokens, completion_tokens)}

    async def events(self, ticket: Ticket, prompt_tokens: int) -> AsyncIterator[bytes]:
        """Server-sent events, one for each token that says something. A failure of the engine is the last one."""
        completion_tokens = 0
        if self.is_chat:
            for index in range(ticket.num_choices):
                yield self._chunk([self._part(index, None, {"role": "assistant", "content": ""}, None)])
        try:
            async for delta in ticket.deltas():
                completion_tokens += 1
                if delta.text or delta.finish_reason or self.with_token_ids:
                    yield self._chunk([self._chunk_choice(delta)])
        except ApiError as error:
            yield _event(error.body())
        else:
            if self.with_usage:
                yield self._chunk([], usage(prompt_tokens, completion_tokens))
        yield DONE

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created_s, "model": self.model}

    def _whole_choice(self, index: int, choice: _Choice) -> Json:
        text = "".join(choice.texts)
        said = {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        shown = {"index": index, **said, "logprobs": None, "finish_reason": choice.finish_reason}
        return shown | ({"token_ids": choice.token_ids} if self.with_token_ids else {})

    def _chunk_choice(self, delta: Delta) -> Json:
        token_ids = [delta.token_id] if self.with_token_ids else None
        said = ({"content": delta.text} if delta.text else {}) if self.is_chat else delta.text
        return self._part(delta.choice, token_ids, said, delta.finish_reason)

    def _part(self, index: int, token_ids: list[int] | None, said: Json | str, reason: str | None) -> Json:
        shown = {"index": index, "delta" if self.is_chat else "text": said, "logprobs": None, "finish_reason": reason}
        return shown | ({"token_ids": token_ids} if token_ids is not None else {})

    def _chunk(self, choices: list[Json], used: Json | None = None) -> bytes:
        chunk = self._head("chat.completion.chunk" if self.is_chat else "text_completion") | {"choices": choices}
        return _event(chunk | {"usage": used} if self.with_usage else chunk)


@dataclass(slots=True)
class _Choice:
    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None

    def take(self, delta: Delta) -> None:
        self.texts.append(delta.text)
        self.token_ids.append(delta.token_id)
        self.finish_reason = delta.finish_reason


def usage(prompt_tokens: int, completion_tokens: int) -> Json:
    """The count of tokens: prompts once, whatever n, and every sample."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _event(value: Json) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
