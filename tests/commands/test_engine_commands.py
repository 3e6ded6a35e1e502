"""`pagesim generate` and `pagesim bench engine` as a person calls them."""

from __future__ import annotations

import pytest

for library in ("torch", "uvicorn", "starlette", "prometheus_client"):
    pytest.importorskip(library, reason="needs pagesim[engine,serve]")

import io
import json
import socket
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from pagesim.commands.engine_options import OPTIONS
from pagesim.engine import Engine, EngineConfig, SamplingParams

TINY = ("--model", "random:tiny", "--num-blocks", "100", "--max-model-len", "512")


def test_every_option_of_the_engine_is_an_option_of_its_commands(pagesim: Any) -> None:
    assert set(OPTIONS) == {field.name for field in fields(EngineConfig)}
    for command in (["generate"], ["serve"], ["bench", "engine"], ["calibrate"]):
        text = pagesim(*command, "--help").out
        for name in OPTIONS:
            assert f"--{name.replace('_', '-')}" in text, f"{command} {name}"


def test_text_goes_to_stdout_and_what_runs_to_stderr(pagesim: Any) -> None:
    expected = Engine(EngineConfig("random:tiny", num_blocks=100, max_model_len=512)).generate(
        ["hello"], SamplingParams(temperature=0, max_tokens=9)
    )
    outcome = pagesim("generate", *TINY, "hello", "--max-tokens", 9)
    assert (outcome.status, outcome.out) == (0, expected[0].text + "\n")
    assert "attention    reference: plain torch" in outcome.err


def test_samples_seeds_and_forks(pagesim: Any) -> None:
    drawn = ("generate", *TINY, "hello", "--temperature", 1, "-n", 3, "--max-tokens", 9, "--seed", 4)
    outcome = pagesim(*drawn, "--json")
    answer = outcome.json()
    assert answer["schema"] == "pagesim.generate/1"
    assert answer["prompt_token_ids"] == list(b"hello")
    samples = answer["samples"]
    assert len({tuple(sample["token_ids"]) for sample in samples}) == 3
    assert pagesim(*drawn, "--fork", "--json").json()["samples"] == samples
    assert pagesim(*drawn).out == "".join(f"[{sample['index']}] {sample['text']}\n" for sample in samples)
    assert 0 < answer["ttft_s"] <= answer["e2e_s"]


def test_the_prompt_from_stdin_and_as_a_question(pagesim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(data: bytes, *options: object) -> Any:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return pagesim("generate", *TINY, "-", "--max-tokens", 5, *options)

    assert said(b"hello").out == pagesim("generate", *TINY, "hello", "--max-tokens", 5).out
    assert said(b"hello", "--chat", "--json").json()["prompt_token_ids"] == list(b"hello\n")
    broken = said(b"\xff")
    assert (broken.status, broken.out) == (2, "")
    assert "stdin is not UTF-8" in broken.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", *TINY, ""], "empty prompt"),
        (["generate", *TINY, "\udcff"], "not UTF-8"),
        (["generate", *TINY, "a", "--top-p", 2], "top_p is 2.0"),
        (["generate", *TINY, "a" * 600], "at most 511"),
        (["generate", *TINY, "a", "--kv-bytes", "much"], "--kv-bytes 'much' is no size"),
        (["generate", *TINY, "a", "--kv-bytes", "1MiB"], "num_blocks and kv_bytes are both given"),
        (["generate", *TINY, "a", "--block-size", 0], "block_size is 0"),
        (["generate", *TINY, "a", "--steps", "/nowhere/steps"], "/nowhere/steps"),
        (["generate", "--model", "random:none", "a"], "no such preset"),
        (["generate", "--model", "random:tiny", "--num-blocks", 10, "a"], "at most 145"),
        (["bench", "engine", *TINY, "--requests", 0], "--requests 0"),
        (["bench", "engine", *TINY, "--limit", 5], "--trace"),
        (["bench", "engine", *TINY, "--requests", 5, "--trace", "x"], "one of the two"),
        (["bench", "engine", *TINY, "--trace", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["bench", "engine"], "--model"),
        (["serve", *TINY, "--port", 70000], "port is 70000"),
        (["serve", *TINY, "--host", "256.0.0.1"], "cannot listen"),
        (["serve", *TINY, "--max-waiting", 0], "max_waiting is 0"),
        (["serve", *TINY, "--grace", -1], "grace_s is -1"),
        (["serve", *TINY, "--port", 0, "--backend", "none"], "backend is 'none'"),
    ],
    ids=lambda value: " ".join(map(str, value))[-40:].replace("/", "_") if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_one_line(words: list[object], message: str, pagesim: Any) -> None:
    outcome = pagesim(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err


def test_a_port_that_is_taken_is_told_before_the_model_is_loaded(pagesim: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = pagesim("serve", "--model", "/nowhere", "--port", port)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"port {port}: cannot listen" in outcome.err


def test_bench_of_a_batch(pagesim: Any, tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"
    load = ("--requests", 5, "--prompt-tokens", 20, "--output-tokens", 8)
    outcome = pagesim("bench", "engine", *TINY, *load, "--json", "--steps", steps)
    report = outcome.json()
    assert report["schema"] == "pagesim.bench.engine/1"
    assert report["attention"]["backend"] == "reference"
    assert (report["requests"], report["prompt_tokens"], report["output_tokens"]) == (5, 100, 40)
    assert report["output_tokens_per_s"] == pytest.approx(40 / report["duration_s"])
    assert {name: values["count"] for name, values in report["latencies"].items()} == {
        "ttft_s": 5, "itl_s": 35, "tpot_s": 5, "e2e_s": 5,
    }  # fmt: skip
    assert report["scheduler"]["steps"] == 8
    assert len(steps.read_text().splitlines()) == 8 + 2, "two of them are the warm-up's"
    text = pagesim("bench", "engine", *TINY, *load).out
    assert "attention    reference: plain torch" in text
    assert "5 requests in" in text


def test_bench_of_a_trace_shares_what_its_hash_ids_share(pagesim: Any, tmp_path: Path) -> None:
    rows = [(0, 48, [1, 2, 3]), (300, 48, [1, 2, 4]), (300, 40, [5, 6, 7]), (400, 600, list(range(38)))]
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(
            json.dumps({"timestamp": at, "input_length": tokens, "output_length": 3, "hash_ids": ids}) + "\n"
            for at, tokens, ids in rows
        )
    )
    words = ("bench", "engine", *TINY, "--trace", trace, "--hash-block-tokens", 16, "--prefix-caching", "--json")
    report = pagesim(*words).json()
    assert (report["requests"], report["rejected"], report["load"]["requests"]) == (3, 1, 4)
    assert report["scheduler"]["prefix_hits_first"] == 32
    assert report["duration_s"] >= 0.3
    assert pagesim(*words, "--limit", 1).json()["scheduler"]["prefix_hits_first"] == 0
