"""`pagesim run --on-full queue` as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.serving.result import ServingResult

SHORT = ("run", "--on-full", "queue", "--num-blocks", "600", "--requests", "300", "--runs", "2")
PREFIX = "".join(
    json.dumps({"arrival_s": row / 4, "prompt_tokens": 40, "output_tokens": 8, "hash_ids": [0, 1, row + 2]}) + "\n"
    for row in range(20)
)

INTERRUPTED = """
import signal, sys
from pagesim import cli
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 2.0)
sys.argv = ["pagesim", *sys.argv[1:]]
cli.main()
"""


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
    assert "only for a place in the batch: at most 4 sequences run at once" in " ".join(shown.out.split())


def test_what_load_a_rate_or_a_trace_is(pagesim: Any) -> None:
    shown = pagesim(*SHORT, "--rate", "2", "--no-html")
    load = float(shown.out.split("2 requests/s: ")[1].split()[0])
    document = pagesim(*SHORT, "--load", load, "--json").json()
    assert document["trace"]["rate_per_s"] == pytest.approx(2, rel=0.01)
    Path("trace.jsonl").write_text(PREFIX)
    words = ("run", "--on-full", "queue", "--trace", "trace.jsonl", "--hash-block-tokens", "16", "--json")
    once = pagesim(*words).json()["trace"]
    assert once["rate_per_s"] is None and once["samples"] == 20
    Path("trace.jsonl").write_text(PREFIX.replace('"hash_ids"', '"n": 3, "hash_ids"'))
    thrice = pagesim(*words).json()["trace"]
    assert thrice["samples"] == 60 and thrice["offered_load"] == pytest.approx(3 * once["offered_load"])
    scaled = pagesim(*words, "--load", "0.5").json()["trace"]
    assert scaled["offered_load"] == pytest.approx(0.5)
    plain = pagesim("run", "--trace", "trace.jsonl", "--hash-block-tokens", "16", "--no-html").out
    assert "the n answers of one count as one" in " ".join(plain.split())


def test_a_card_has_its_own_limits_and_a_roofline_says_what_it_is(pagesim: Any) -> None:
    words = (
        "run",
        "--on-full",
        "queue",
        "--model",
        "llama-3.1-8b",
        "--device",
        "h100",
        "--requests",
        "20",
        "--runs",
        "1",
    )
    rules = pagesim(*words, "--json").json()["config"]["queue"]["rules"]
    assert (rules["token_budget"], rules["max_num_seqs"]) == (8192, 1024)
    rules = pagesim(*words, "--max-num-seqs", "16", "--json").json()["config"]["queue"]["rules"]
    assert (rules["token_budget"], rules["max_num_seqs"]) == (8192, 16)
    assert "a bound from data sheets: no machine is as fast" in " ".join(pagesim(*words, "--no-html").out.split())
    slow = ("--step-time", "roofline:h100:llama-3.1-8b:3")
    times = [pagesim(*words, *more, "--json").json()["trace"]["mean_residence_s"] for more in ((), slow)]
    assert times[1] == pytest.approx(3 * times[0])


def test_caching_that_finds_nothing_says_why(pagesim: Any) -> None:
    shown = pagesim(*SHORT, "--load", "0.3", "--prefix-caching", "--no-html")
    assert "Prefix caching found nothing." in shown.out


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


def test_swapping_beside_recomputing(pagesim: Any) -> None:
    words = (*SHORT, "--load", "1.3", "--allocators", "exact-fit,paged", "--json")
    recomputed = pagesim(*words).json()["allocators"]["paged"]
    swapped = pagesim(*words, "--preempt", "swap").json()["allocators"]
    assert recomputed["what_ifs"] == {} and recomputed["recomputed_tokens"] > 0
    swap = swapped["paged"]["what_ifs"]["swap"]
    assert swap["swapped"] == swapped["paged"]["preemptions"] > 0 == swapped["paged"]["recomputed_tokens"]
    assert swap["blocks_out"] == swap["blocks_in"] and swap["link_s"] > 0
    assert swapped["exact-fit"]["what_ifs"] == {}
    slow = pagesim(*words, "--preempt", "swap", "--host-memory", "1MiB", "--host-bandwidth", "1MB").json()
    assert slow["allocators"]["paged"]["what_ifs"]["swap"]["recomputed"] > 0


def test_forks_beside_independent_samples(pagesim: Any) -> None:
    row = {"arrival_s": 0, "prompt_tokens": 100, "output_tokens": 8, "n": 4}
    Path("trace.jsonl").write_text(json.dumps(row) + "\n")
    words = ("run", "--on-full", "queue", "--trace", "trace.jsonl", "--allocator", "paged")
    apart = pagesim(*words, "--json").json()["allocators"]["paged"]
    forked = pagesim(*words, "--fork", "cow", "--json").json()["allocators"]["paged"]
    assert apart["requests"] == forked["requests"] == 4
    # Six whole blocks and one part of the prompt are shared by four: 3 * 7 saved, less the copies of the part.
    assert forked["what_ifs"]["fork"] == {
        "forks": 1, "blocks_saved": 18, "blocks_copied": 3, "prompt_tokens_saved": 300,
    }  # fmt: skip
    shown = pagesim(*words, "--fork", "cow", "--no-html").out
    assert "blocks saved, copied" in shown and "samples forked, copy on write" in " ".join(shown.split())


def test_which_cached_block_goes_first(pagesim: Any) -> None:
    """Three texts in turn, room for two: least recently used finds nothing, foresight does."""
    rows = [
        {"arrival_s": 10 * k, "prompt_tokens": 120, "output_tokens": 2, "hash_ids": [k % 3, 10 + k]} for k in range(12)
    ]
    Path("trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("run", "--on-full", "queue", "--trace", "trace.jsonl", "--hash-block-tokens", "100", "--allocator",
             "paged", "--num-blocks", "18", "--max-model-len", "200", "--prefix-caching", "--json")  # fmt: skip
    found = {
        rule: pagesim(*words, "--evict", rule).json()["allocators"]["paged"]["prefix"]["prefix_hits_first"]
        for rule in ("lru", "fifo", "random", "optimal")
    }
    assert found["optimal"] > found["lru"] and found["optimal"] >= max(found.values())
    whole = pagesim(*words[:-2], "--num-blocks", "60", "--prefix-caching", "--json").json()["allocators"]["paged"]
    fine = pagesim(*words[:-2], "--num-blocks", "60", "--prefix-caching", "--prefix-match-unit", "1", "--json").json()
    assert whole["prefix"]["prefix_hits_first"] == 9 * 96
    assert fine["allocators"]["paged"]["prefix"]["prefix_hits_first"] == 9 * 100
    assert fine["allocators"]["paged"]["what_ifs"]["match"]["blocks_copied"] == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--token-budget", "9"), "--token-budget is of serving; accepted: together with --on-full queue"),
        (("--no-chunked-prefill",), "--no-chunked-prefill is of serving"),
        (("--steps", "x"), "--steps is of serving"),
        (("--on-full", "queue", "--growth", "token"), "--growth is of a request that stays"),
        (("--on-full", "queue", "--decode-rate", "3"), "--decode-rate is of a request that stays"),
        (
            ("--on-full", "queue", "--step-time", "slow"),
            "step time 'slow' is no form and no file here; accepted: constant:SECONDS",
        ),
        (
            ("--on-full", "queue", "--step-time", "no.json"),
            "step time 'no.json' is no form and no file here; accepted: constant",
        ),
        (
            ("--on-full", "queue", "--step-time", ""),
            "step time '' is no form and no file here; accepted: constant:SECONDS",
        ),
        (("--on-full", "queue", "--slo", "ttft<soon"), "--slo 'ttft<soon'"),
        (("--on-full", "queue", "--steps", "x"), "accepted: with --allocator NAME and --runs 1"),
        (("--on-full", "queue", "--policy", "lifo"), "--policy lifo; accepted: fcfs, priority"),
        (("--on-full", "queue", "--watermark", "1"), "--watermark 1; accepted: 0 or more and less than 1"),
        (("--on-full", "queue", "--host-memory", "1GiB"), "--host-memory is of swapping"),
        (("--on-full", "queue", "--preempt", "swap", "--host-bandwidth", "fast"), "--host-bandwidth 'fast' is no size"),
        (("--on-full", "queue", "--evict", "fifo"), "--evict fifo without --prefix-caching"),
        (("--on-full", "queue", "--prefix-caching", "--prefix-match-unit", "3"), "--prefix-match-unit 3; accepted: 0"),
        (("--on-full", "queue", "--prefix-caching", "--fork", "cow"), "--fork cow with --prefix-caching"),
        (("--rate", "3", "--load", "high"), "--load and --rate given"),
        (("--rate", "-3"), "load '-3/s'; accepted: moderate, high, a number"),
        (("--on-full", "queue", "--step-time", "roofline:h100:llama-3.1-8b:0"), "roofline 0 times slower"),
        (("--on-full", "wait"), "--on-full wait; accepted: refuse, queue"),
    ],
)
def test_mistakes_are_one_line(pagesim: Any, words: tuple[str, ...], said: str) -> None:
    outcome = pagesim("run", *words, "--no-html")
    assert outcome.status == 2 and outcome.out == ""
    assert said in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--steps", "--html"])
def test_what_is_no_plain_file_is_not_replaced(pagesim: Any, flag: str) -> None:
    """A pipe stands for a device here: written under root, /dev/null would become a file."""
    os.mkfifo("pipe")
    Path("file").write_text("kept")
    Path("link").symlink_to("file")
    Path("nowhere").symlink_to("gone")
    for name in ("pipe", "link", "nowhere"):
        before = os.lstat(name).st_ino
        outcome = pagesim(*SHORT[:-1], "1", "--allocator", "paged", flag, name)
        assert outcome.status == 2 and outcome.out == "" and outcome.err.count("\n") == 1
        assert f"{name}: is a link, a device or a pipe" in outcome.err
        assert os.lstat(name).st_ino == before
    assert Path("file").read_text() == "kept" and not Path("gone").exists()


def test_a_file_for_each_thing_that_is_read_or_written(pagesim: Any) -> None:
    Path("trace.jsonl").write_text(PREFIX)
    Path("saved").mkdir()
    traced = ("--trace", "trace.jsonl", "--hash-block-tokens", "16", "--allocator", "paged")
    drawn = ("--requests", "20", "--runs", "1", "--allocator", "paged")
    for words in (
        (*traced, "--html", "./trace.jsonl"),
        (*traced, "--steps", "trace.jsonl", "--no-html"),
        (*drawn, "--steps", "x", "--html", "saved/../x"),
        (*drawn, "--steps", "saved/run.json", "--out", "saved"),
    ):
        outcome = pagesim("run", "--on-full", "queue", *words)
        assert outcome.status == 2 and outcome.out == "" and outcome.err.count("\n") == 1
        assert "is named twice, to be read or written" in outcome.err
    assert Path("trace.jsonl").read_text() == PREFIX


def test_a_name_that_no_file_can_have(pagesim: Any) -> None:
    outcome = pagesim(*SHORT, "--json", "--html", "a" * 300)
    assert outcome.status == 2 and outcome.out == "" and "no file can have that name" in outcome.err


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", [("--version",), (*SHORT[:-1], "1", "--json"), (*SHORT[:-1], "1", "--no-html")])
def test_a_full_disk_under_the_output_is_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:  # opened, never replaced
        done = subprocess.run([sys.executable, "-m", "pagesim", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: cannot be read or written (No space left on device)\n"


def test_an_interrupt_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    words = ("run", "--on-full", "queue", "--requests", "300000", "--runs", "1", "--allocator", "paged")
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *words, "--steps", "steps.jsonl", "--html", "page.html"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []
