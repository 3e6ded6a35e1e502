"""The real `openai` client, over loopback."""

from __future__ import annotations

import pytest

for library in ("torch", "openai"):
    pytest.importorskip(library, reason="needs pagesim[engine,serve,dev]")

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
from running_server import Running, running

from pagesim.engine import Engine, EngineConfig, SamplingParams

MODEL = "random:tiny"
IDS = {"return_token_ids": True}


def token_ids(answer: Any) -> list[list[int]]:
    return [choice.token_ids for choice in answer.choices]


def streamed(chunks: Any) -> tuple[dict[int, str], dict[int, list[int]], dict[int, str]]:
    """Texts, tokens and finish reasons of a completion's choices."""
    texts: dict[int, str] = {}
    ids: dict[int, list[int]] = {}
    reasons: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            assert choice.index not in reasons, "nothing comes after the end"
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            ids.setdefault(choice.index, []).extend(choice.token_ids)
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    return texts, ids, reasons


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


def test_a_completion_is_what_the_engine_gives(server: Running, client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="hello", max_tokens=12, temperature=0, extra_body=IDS)
    alone = Engine(EngineConfig(MODEL, num_blocks=20, max_model_len=100))
    expected = alone.generate(["hello"], SamplingParams(temperature=0, max_tokens=12))[0]
    assert token_ids(answer) == [list(expected.token_ids)]
    assert answer.choices[0].text == expected.text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 12, 17)


def test_a_stream_adds_up_to_the_whole_answer(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "wörld", "max_tokens": 30, "seed": 4, "n": 3, "extra_body": IDS}
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    texts, ids, reasons = streamed(chunks)
    assert [texts[index] for index in range(3)] == [choice.text for choice in whole.choices]
    assert [ids[index] for index in range(3)] == token_ids(whole)
    assert set(reasons.values()) == {"length"}
    assert chunks[-1].usage == whole.usage
    assert not chunks[-1].choices
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_chat_whole_and_streamed(client: openai.OpenAI) -> None:
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Wh"}, {"type": "text", "text": "y?"}]},
    ]
    whole = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=15, temperature=0)
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=messages, max_tokens=15, temperature=0, stream=True)
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == len("Be brief.\nWhy?\n")


def test_a_chat_without_max_tokens_goes_on_to_the_models_length(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "x" * 4085}]
    answer = client.chat.completions.create(model=MODEL, messages=messages)
    assert answer.usage is not None
    assert answer.usage.total_tokens == 4096


def test_seeds(client: openai.OpenAI) -> None:
    def ask(seed: int | None, n: int = 1) -> list[list[int]]:
        return token_ids(
            client.completions.create(model=MODEL, prompt="a", max_tokens=10, seed=seed, n=n, extra_body=IDS)
        )

    three = ask(7, 3)
    assert ask(7, 3) == three
    assert ask(7) == three[:1], "the first sample is the one of n = 1"
    assert len({tuple(each) for each in three}) == 3
    assert ask(8) != ask(7)
    assert ask(None) != ask(None)


def test_several_prompts_come_back_in_order(client: openai.OpenAI) -> None:
    draw = random.Random(1)
    prompts = [[draw.randrange(1024) for _ in range(draw.randint(1, 40))] for _ in range(4)]
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 6, "temperature": 0, "extra_body": IDS}
    together = client.completions.create(prompt=prompts, n=2, **asked)
    apart = [token_ids(client.completions.create(prompt=prompt, **asked))[0] for prompt in prompts]
    assert token_ids(together) == [each for each in apart for _ in range(2)]
    assert [choice.index for choice in together.choices] == list(range(8))
    assert together.usage is not None
    assert together.usage.prompt_tokens == sum(map(len, prompts))


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_text_ends_an_answer_and_is_not_part_of_it(stream: bool, client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "stop", "max_tokens": 60, "seed": 2, "extra_body": IDS}
    text = client.completions.create(**asked).choices[0].text
    stop = text[20:23]
    expected = text[: text.find(stop)]
    answer = client.completions.create(**asked, stop=["never there", stop], stream=stream)
    if stream:
        texts, ids, reasons = streamed(answer)
        assert (texts[0], reasons[0]) == (expected, "stop")
        assert len(ids[0]) < 60, "the engine was told at once"
    else:
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == (expected, "stop")


def test_thirty_two_at_once_get_what_each_gets_alone() -> None:
    """In a pool that is too small for them all, so that some are preempted."""
    draw = random.Random(3)
    prompts = [[draw.randrange(1024) for _ in range(draw.randint(1, 60))] for _ in range(32)]
    with running({}, num_blocks=50, max_model_len=128) as server, server.client() as client:

        def ask(prompt: list[int]) -> list[list[int]]:
            return token_ids(
                client.completions.create(model=MODEL, prompt=prompt, max_tokens=24, temperature=0, extra_body=IDS)
            )

        with ThreadPoolExecutor(32) as threads:
            together = list(threads.map(ask, prompts))
        metrics = server.wait_until_idle()
        assert together == [ask(prompt) for prompt in prompts]
    assert metrics["vllm:num_preemptions_total"] > 0
    assert metrics["vllm:request_success_total"] == 32
    assert metrics["vllm:prompt_tokens_total"] == sum(map(len, prompts))
    assert metrics["vllm:generation_tokens_total"] == 32 * 24
