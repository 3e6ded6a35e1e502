"""One request to a server, and what comes back: an answer in pieces, with the time of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pagesim.validate.server.errors import GoneError, NonsenseError, RefusedError
from pagesim.validate.server.http import SHOWN, Server

COMPLETIONS = "/v1/completions"
DONE = b"[DONE]"


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Choice(msgspec.Struct):
    text: str = ""
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


@dataclass(slots=True)
class Answer:
    """`first_s`, `last_s`: when the first and the last tokens came, on `time.monotonic`; None: none came.

    `token_ids`: how many ids came, None if the server sends none. `prompt_tokens`, `completion_tokens`: as it counts
    them at the end.
    """

    first_s: float | None = None
    last_s: float | None = None
    token_ids: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = field(default=False)

    @property
    def num_tokens(self) -> int | None:
        """Of the answer, counted here if that can be."""
        return self.completion_tokens if self.token_ids is None else self.token_ids


def stream(server: Server, body: dict[str, Any], answer: Answer) -> None:
    """Ask, and write into `answer` what comes, to the end.

    Raises RefusedError, GoneError if the stream ends before it is done, and NonsenseError.
    """
    for line in server.lines(COMPLETIONS, msgspec.json.encode(body)):
        text = line.strip()
        if not text or text.startswith(b":"):
            continue
        if not text.startswith(b"data:"):
            raise NonsenseError(f"POST {COMPLETIONS}: {_shown(text)} is no server-sent event")
        data = text.removeprefix(b"data:").strip()
        if data == DONE:
            answer.done = True
            return
        _take(data, answer, time.monotonic())
    raise GoneError("the answer broke off")


def _take(data: bytes, answer: Answer, now_s: float) -> None:
    try:
        chunk = msgspec.json.decode(data, type=_Chunk)
    except msgspec.DecodeError as error:
        raise NonsenseError(f"POST {COMPLETIONS}: {_shown(data)} is no piece of an answer ({error})") from error
    if chunk.error is not None:
        raise RefusedError(
            f"POST {COMPLETIONS}: in the middle of an answer: {_shown(msgspec.json.encode(chunk.error))}"
        )
    if chunk.usage is not None:
        answer.prompt_tokens, answer.completion_tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
    for choice in chunk.choices:
        if choice.token_ids is not None:
            answer.token_ids = (answer.token_ids or 0) + len(choice.token_ids)
        if choice.token_ids or (choice.token_ids is None and choice.text):
            answer.first_s = now_s if answer.first_s is None else answer.first_s
            answer.last_s = now_s
        answer.finish_reason = choice.finish_reason or answer.finish_reason


def _shown(data: bytes) -> str:
    return repr(data[:SHOWN].decode("utf-8", "replace"))
