"""`pagesim run --on-full queue` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.serving.result import ServingResult

SHORT = ("run", "--on-full", "queue", "--num-blocks", "600", "--requests", "300", "--runs", "2")
PREFIX = "".join(
    json.dumps({"arrival_s": row / 4, "prompt_tokens": 40, "output_tokens": 8, "hash_ids": [0, 1, row + 2]}) + "\n"
    for row in range(20)
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_json_has_the_keys_that_were_promised(pagesim: Any) -> None:
    document = pagesim(*SHORT, "--slo", "ttft<2s", "--json").json()
    assert document["schema"] == "pagesim.serve/1"
    assert document["config"]["queue"]["step_time"] == "t4-qwen2.5-0.5b-vllm0.29"
    assert document["config"]["queue"]["rules"]["num_blocks"] == 600
    assert list(document["allocators"]) == ["reservation", "exact-fit", "paged"]
    for allocator in document["allocators"].values():
        assert allocator["finished"] == allocator["requests"] == 600
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queueing_s"):
            latency = allocator[name]
            values = [latency[key]["mean"] for key in ("p50", "p90", "p95", "p99")]
            assert values == sorted(values) and latency["max"] >= latency["p99"]["mean"]
            assert latency["count"] > 0 and latency["missing"] == (0 if name != "tpot_s" else latency["missing"])
        assert sum(allocator[part]["mean"] for part in ("used", "reserved", "internal", "free")) == pytest.approx(1)
        assert allocator["waited"].keys() == {"no blocks", "max_num_seqs", "token budget", "preemption"}
        assert allocator["goodput_per_s"]["mean"] <= allocator["requests_per_s"]["mean"]
        assert "series" not in allocator


def test_the_table_the_report_and_the_saved_result(pagesim: Any) -> None:
    shown = pagesim(*SHORT, "--html", "page.html", "--out", "saved")
    assert shown.status == 0 and shown.err == ""
    for words in ("output tokens/s", "TTFT p50, p99", "free but unusable", "waited: memory", "report: page.html"):
        assert words in shown.out
    page = Path("page.html").read_text()
    for words in ("Who runs, and who waits", "The wait for the first token", "Preemptions", "--on-full queue"):
        assert words in page
    assert ServingResult.load("saved").allocators["paged"].finished == 600


def test_a_limit_that_is_not_memory_is_said_first(pagesim: Any) -> None:
    shown = pagesim(*SHORT[:3], "--requests", "300", "--runs", "2", "--max-num-seqs", "4", "--no-html")
    assert "Nobody waited for memory: at most 4 sequences run at once" in " ".join(shown.out.split())


def test_steps_of_one_allocator_in_one_run(pagesim: Any) -> None:
    shown = pagesim(*SHORT[:-2], "--runs", "1", "--allocator", "paged", "--steps", "steps.jsonl", "--json")
    rows = [json.loads(line) for line in Path("steps.jsonl").read_text().splitlines()]
    allocator = shown.json()["allocators"]["paged"]
    assert len(rows) == allocator["steps"]
    assert sum(len(row["finished"]) for row in rows) == 300
    assert sum(len(row["preempted"]) for row in rows) == allocator["preemptions"]
    assert max(row["running"] for row in rows) == allocator["running_peak"]
    assert rows[0].keys() >= {"step", "t", "running", "waiting", "scheduled_tokens", "blocks_used", "admitted"}


def test_a_trace_with_shared_beginnings(pagesim: Any) -> None:
    Path("trace.jsonl").write_text(PREFIX)
    words = ("run", "--on-full", "queue", "--trace", "trace.jsonl", "--hash-block-tokens", "16", "--json")
    cached = pagesim(*words, "--prefix-caching", "--allocator", "paged").json()["allocators"]["paged"]
    assert cached["prefix"]["prefix_hits_first"] == 19 * 32
    assert pagesim(*words).json()["allocators"]["paged"]["prefix_hit_share"] is None


def test_a_step_time_of_each_kind(pagesim: Any) -> None:
    profile = Path(__file__).parents[2] / "sim" / "experiments" / "t4-qwen2.5-0.5b-vllm0.29.json"
    spans = {}
    for form in ("constant:0.01", "linear:0.008:4e-5:1e-7:2e-5", "roofline:a100-40gb:qwen2.5-0.5b", str(profile)):
        document = pagesim(*SHORT, "--step-time", form, "--load", "0.5", "--json").json()
        spans[form] = document["trace"]["mean_residence_s"]
    assert len(set(spans.values())) == 4
    default = pagesim(*SHORT, "--load", "0.5", "--json").json()
    assert default["trace"]["mean_residence_s"] == spans[str(profile)]
    card = pagesim("run", "--on-full", "queue", "--model", "llama-3.1-8b", "--device", "h100", "--requests", "20",
                   "--runs", "1", "--json").json()  # fmt: skip
    assert card["config"]["queue"]["step_time"] == "roofline:h100:llama-3.1-8b"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--token-budget", "9"), "--token-budget is of serving; accepted: together with --on-full queue"),
        (("--no-chunked-prefill",), "--no-chunked-prefill is of serving"),
        (("--steps", "x"), "--steps is of serving"),
        (("--on-full", "queue", "--growth", "token"), "--growth is of a request that stays"),
        (("--on-full", "queue", "--decode-rate", "3"), "--decode-rate is of a request that stays"),
        (("--on-full", "queue", "--step-time", "slow"), "step time 'slow'; accepted: constant:SECONDS"),
        (("--on-full", "queue", "--slo", "ttft<soon"), "--slo 'ttft<soon'"),
        (("--on-full", "queue", "--steps", "x"), "accepted: with --allocator NAME and --runs 1"),
        (("--on-full", "queue", "--policy", "lifo"), "--policy lifo; accepted: fcfs, priority"),
        (("--on-full", "queue", "--watermark", "1"), "--watermark 1; accepted: 0 or more and less than 1"),
        (("--on-full", "wait"), "--on-full wait; accepted: refuse, queue"),
    ],
)
def test_mistakes_are_one_line(pagesim: Any, words: tuple[str, ...], said: str) -> None:
    outcome = pagesim("run", *words, "--no-html")
    assert outcome.status == 2 and outcome.out == ""
    assert said in outcome.err and outcome.err.count("\n") == 1
