"""The bodies of requests: OpenAI's fields, and those of vLLM's own that the engine has.

A field that is unknown, or known and not served, is refused by name; ignoring one would answer another question than
was asked. Null means the default. Left out: log probabilities, penalties, biases, tools, images, audio.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec

from pagesim.engine.server.api_error import ApiError

MAX_CHOICES = 128  # OpenAI's limit for n
MAX_STOPS = 16
MAX_STOP_CHARS = 256  # they are looked for at every token, by the engine's thread
PLACE = re.compile(r"\$\.(\w+)")  # where msgspec says a value stands

Positive = Annotated[int, msgspec.Meta(ge=1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
StopText = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_STOP_CHARS)]
Stops = Annotated[list[StopText], msgspec.Meta(max_length=MAX_STOPS)]
NotEmpty = Annotated[str, msgspec.Meta(min_length=1)]

# What a field may say although it is not served: nothing, or what comes to the same. Compared with its type, since
# 0 == False, and `logprobs: 0` asks for something.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0, 0.0),
    "functions": (None,),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "min_tokens": (None, 0),
    "presence_penalty": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
    "response_format": (None, {"type": "text"}),
    "suffix": (None, ""),
    "tool_choice": (None, "none"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
}


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """`include_usage`: a last chunk that counts tokens."""

    include_usage: bool = False


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What both kinds of request may say. `cache_salt`, `priority`, `top_k` and below are vLLM's."""

    model: str | None = None
    max_tokens: Positive | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)] | None = None
    seed: Int64 | None = None
    stop: StopText | Stops | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    cache_salt: NotEmpty | None = None
    priority: Int64 | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    frequency_penalty: Any = None
    logit_bias: Any = None
    logprobs: Any = None
    min_tokens: Any = None
    presence_penalty: Any = None
    repetition_penalty: Any = None
    response_format: Any = None
    top_logprobs: Any = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end an answer, which they are not part of."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class CompletionBody(Body, kw_only=True):
    """`prompt`: a text, token ids, or a list of either; lists that mix them are refused later."""

    prompt: str | list[int | str | list[int]]
    best_of: Any = None
    echo: Any = None
    suffix: Any = None


class TextPart(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A part of a message. There are no others than text."""

    text: str


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: NotEmpty
    content: str | list[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        """Its parts, put together."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(Body, kw_only=True):
    """`max_completion_tokens`: OpenAI's newer name for max_tokens."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: Positive | None = None
    functions: Any = None
    tool_choice: Any = None
    tools: Any = None


AnyBody = TypeVar("AnyBody", bound=Body)


def read_body(data: bytes, kind: type[AnyBody]) -> AnyBody:
    """The body of a request. Raises ApiError 400 that names the field."""
    try:
        body = msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        place = PLACE.search(str(error))
        raise ApiError(400, str(error), param=place and place[1]) from None
    except RecursionError:
        raise ApiError(400, "the JSON is nested too deeply") from None
    for name, neutral in NEUTRAL.items():
        value = getattr(body, name, None)
        if not any(type(value) is type(each) and value == each for each in neutral):
            raise ApiError(400, f"{name} is not supported; accepted: leave it out", param=name)
    if body.stream_options is not None and not body.stream:
        raise ApiError(400, "stream_options without stream; accepted: with stream true", param="stream_options")
    return body
