"""A request as the engine's thread takes it: what is to be continued, how, and how often."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagesim.engine.errors import RequestError
from pagesim.engine.sampling import SamplingParams, sample_seed
from pagesim.engine.server.api_error import ApiError
from pagesim.engine.server.protocol import MAX_CHOICES, Body, ChatBody, CompletionBody

DEFAULT_MAX_TOKENS = 16  # of a completion, by OpenAI's reference; a chat goes on to the model's length
Messages = tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """`prompts`: texts, token ids or conversations, each continued by every one of `samplings`.

    `max_tokens`: None for as many as the model's length leaves.
    """

    prompts: tuple[str | list[int] | Messages, ...]
    samplings: tuple[SamplingParams, ...]
    max_tokens: int | None
    stops: tuple[str, ...]
    salt: str | None
    priority: int

    @property
    def num_choices(self) -> int:
        """Samples of all prompts."""
        return len(self.prompts) * len(self.samplings)


def completion_job(body: CompletionBody) -> Job:
    """Raises ApiError 400 on values that make no sense."""
    return _job(body, _prompts(body.prompt), body.max_tokens or DEFAULT_MAX_TOKENS)


def chat_job(body: ChatBody) -> Job:
    """Raises ApiError 400 on values that make no sense."""
    messages = tuple({"role": message.role, "content": message.text} for message in body.messages)
    return _job(body, (messages,), body.max_completion_tokens or body.max_tokens)


def _prompts(said: str | list[int | str | list[int]]) -> tuple[str | list[int], ...]:
    if isinstance(said, str):
        return (said,)
    numbers = [each for each in said if isinstance(each, int)]
    texts = [each for each in said if isinstance(each, str)]
    lists = [each for each in said if isinstance(each, list)]
    if not said or len(said) not in (len(numbers), len(texts), len(lists)):
        what = "prompt is an empty list or a mixed one; accepted: a text, token ids, or a list of either"
        raise ApiError(400, what, param="prompt")
    return (numbers,) if numbers else (*texts, *lists)


def _job(body: Body, prompts: tuple[str | list[int] | Messages, ...], max_tokens: int | None) -> Job:
    n = body.n or 1
    if len(prompts) * n > MAX_CHOICES:
        raise ApiError(400, f"{len(prompts)} prompts of {n} samples; accepted: {MAX_CHOICES} samples at most")
    try:
        sampling = SamplingParams(
            temperature=1.0 if body.temperature is None else body.temperature,
            top_k=body.top_k if body.top_k and body.top_k > 0 else None,  # vLLM says 0 or -1 for all tokens
            top_p=1.0 if body.top_p is None else body.top_p,
            ignore_eos=bool(body.ignore_eos),
            stop_token_ids=frozenset(body.stop_token_ids or ()),
        )
    except RequestError as error:
        raise ApiError(400, str(error), param=str(error).partition(" ")[0]) from None
    samplings = tuple(replace(sampling, seed=_seed(body.seed, sample)) for sample in range(n))
    return Job(prompts, samplings, max_tokens, body.stops, body.cache_salt, body.priority or 0)


def _seed(seed: int | None, sample: int) -> int | None:
    """The first sample of a seed is what n = 1 gives."""
    return seed if seed is None or sample == 0 else sample_seed(seed, sample)
