"""What cannot be served is refused in OpenAI's JSON, and leaves nothing behind."""

from __future__ import annotations

import pytest

for library in ("torch", "openai"):
    pytest.importorskip(library, reason="needs pagesim[engine,serve,dev]")

from typing import Any

import httpx
import openai
from running_server import Running

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("", None),
        ("{", None),
        ("[]", None),
        ("\xff".encode("latin-1"), None),
        ('{"prompt": "a", "temperature": NaN}', None),
        ('{"prompt": "a", "logit_bias": ' + "[" * 100_000 + "]" * 100_000 + "}", None),
        ({}, None),
        ({"prompt": "a", "colour": 1}, None),
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, None),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, None),
        ({"prompt": ["a", [1]]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [1024]}, None),
        ({"prompt": [-1]}, None),
        ({"prompt": [10**30]}, None),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "max_tokens": 4096}, "max_tokens"),
        ({"prompt": "a" * 4096}, "prompt"),
        ({"prompt": "a", "max_tokens": 10**30}, "max_tokens"),
        ({"prompt": "a", "temperature": -1}, "temperature"),
        ({"prompt": "a", "temperature": "hot"}, "temperature"),
        ({"prompt": "a", "top_p": 0}, "top_p"),
        ({"prompt": "a", "top_k": -2}, "top_k"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"prompt": "a", "n": 129}, "n"),
        ({"prompt": ["a"] * 65, "n": 2}, None),
        ({"prompt": "a", "seed": 2**63}, "seed"),
        ({"prompt": "a", "stop": ""}, "stop"),
        ({"prompt": "a", "stop": ["a"] * 17}, "stop"),
        ({"prompt": "a", "logprobs": 0}, "logprobs"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "presence_penalty": 0.5}, "presence_penalty"),
        ({"prompt": "a", "cache_salt": ""}, "cache_salt"),
        ({"prompt": "a", "priority": 1}, "priority"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_completion(body: Any, param: str | None, server: Running) -> None:
    check(server.post(COMPLETIONS, body), 400, param)
    server.wait_until_idle()


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages"),
        ({"messages": HELLO, "logprobs": True}, "logprobs"),
        ({"messages": HELLO, "tools": [{}]}, "tools"),
        ({"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [{"role": "user", "content": "a" * 5000}]}, "prompt"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_bad_chat(body: Any, param: str | None, server: Running) -> None:
    check(server.post(CHAT, body), 400, param)


def check(response: httpx.Response, status: int, param: str | None) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["message"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


def test_what_says_the_default_is_served(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="random:tiny",
        prompt="a",
        max_tokens=1,
        frequency_penalty=0,
        presence_penalty=0.0,
        logit_bias={},
        echo=False,
    )
    assert len(answer.choices) == 1


def test_the_client_sees_its_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="another", prompt="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="random:tiny", prompt="a" * 5000, stream=True)
    assert long.value.code == "context_length_exceeded"
    assert "4096" in str(long.value)


def test_routes_that_are_none(server: Running) -> None:
    check(server.http.get(COMPLETIONS), 405, None)
    check(server.http.get("/v1/embeddings"), 404, None)


def test_a_body_over_the_limit(server: Running) -> None:
    check(server.post(COMPLETIONS, b" " * (4 * 2**20 + 1)), 413, None)
    assert server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1}).status_code == 200


def test_one_bad_prompt_of_several_refuses_all_and_holds_nothing(server: Running) -> None:
    check(server.post(COMPLETIONS, {"prompt": [[1], [2], [5000]], "n": 3}), 400, None)
    server.wait_until_idle()
