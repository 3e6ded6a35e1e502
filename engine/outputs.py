"""What the engine gives back: each step's new tokens, and for each request its samples, texts, reasons and times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleOutput:
    """One continuation. `token_ids` include the one that stopped it. `finish_reason`: "stop", "length" or "abort"."""

    index: int
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """One finished request. Times are in seconds on the engine's clock; an aborted request may have no first token."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    samples: tuple[SampleOutput, ...]
    arrival_s: float
    first_token_s: float | None
    finished_s: float
    num_preemptions: int

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Of the first sample."""
        return self.samples[0].token_ids

    @property
    def text(self) -> str:
        """Of the first sample."""
        return self.samples[0].text

    @property
    def finish_reason(self) -> str:
        """Of the first sample."""
        return self.samples[0].finish_reason


@dataclass(frozen=True, slots=True)
class NewToken:
    """One token of one sample. `text`: what it adds to a request that streams, which may lag behind; otherwise empty.

    `finish_reason`: "stop" or "length" with a sample's last token, else None.
    """

    request_id: str
    index: int
    token_id: int
    text: str
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class StepOutput:
    """One step: `time_s` on the engine's clock when its tokens were there, the tokens, and the requests that ended."""

    time_s: float
    tokens: tuple[NewToken, ...]
    finished: tuple[RequestOutput, ...]
