"""`pagesim run` as a user meets it: its JSON, its table, its report, and one line for each mistake."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.result import RunResult

SHORT = ("run", "--load", "high", "--requests", "400", "--runs", "3")
SHARED = Path(__file__).parents[3] / "shared" / "traces"
TIMES = (
    '{"arrival_s": 0.5, "prompt_tokens": 100, "output_tokens": 20}\n'
    '{"arrival_s": 1.5, "prompt_tokens": 50, "output_tokens": 9}\n'
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trace() -> Path:
    path = Path("trace.jsonl")
    path.write_text(TIMES)
    return path


def test_json_has_the_keys_that_were_promised(pagesim: Any) -> None:
    document = pagesim(*SHORT, "--json").json()
    assert document["schema"] == "pagesim.run/1"
    assert {"config", "trace", "pool", "allocators"} <= document.keys()
    assert document["trace"]["requests"] == 400
    assert re.fullmatch("[0-9a-f]{64}", document["trace"]["sha256"])
    pool = {"tokens": 929_024, "block_size": 16, "num_blocks": 58_064, "bytes_per_token": 12_288, "reservations": 453}
    assert document["pool"].items() >= pool.items()
    assert list(document["allocators"]) == ["reservation", "exact-fit", "paged"]
    for allocator in document["allocators"].values():
        parts = ("admitted", "refused", "rejected", "dropped")
        assert sum(allocator[part] for part in parts) == allocator["requests"] == 1200
        for share in ("refused_share", "occupied", "used", "reserved", "internal", "free"):
            assert allocator[share].keys() == {"mean", "low", "high"}
            assert 0 <= allocator[share]["low"] <= allocator[share]["mean"] <= allocator[share]["high"] <= 1
        whole = sum(allocator[share]["mean"] for share in ("used", "reserved", "internal", "free"))
        assert whole == pytest.approx(1, abs=1e-8)
        assert allocator["occupied"]["mean"] == pytest.approx(1 - allocator["free"]["mean"], abs=1e-8)


def test_at_refusal_is_null_only_where_nothing_was_refused(pagesim: Any) -> None:
    document = pagesim("run", "--load", "2", "--requests", "1500", "--runs", "2", "--json").json()
    reservation, paged = document["allocators"]["reservation"], document["allocators"]["paged"]
    assert reservation["refused"] > 0
    assert {"occupied_mean", "occupied_first", "unusable_mean", "largest_free_run_mean"} <= reservation[
        "at_refusal"
    ].keys()
    assert paged["refused"] == 0
    assert paged["at_refusal"] is None


def test_the_order_of_allocators_changes_no_byte(pagesim: Any) -> None:
    one = pagesim(*SHORT, "--allocators", "paged,reservation,buddy", "--json").out
    other = pagesim(*SHORT, "--allocators", "buddy,paged,reservation", "--json").out
    assert one == other


def test_another_seed_is_another_trace(pagesim: Any) -> None:
    one, other = (pagesim(*SHORT, "--seed", seed, "--json").json()["trace"]["sha256"] for seed in (1, 2))
    assert one != other


def test_table_sentences_and_report(pagesim: Any) -> None:
    outcome = pagesim("run", "--load", "high", "--requests", "9000", "--runs", "2")
    assert outcome.status == 0
    text = " ".join(outcome.out.split())
    for fact in (
        "929,024 tokens",
        "refused, of requests",
        "free but unusable",
        "reservation refused",
        "three readings",
    ):
        assert fact in text, outcome.out
    assert outcome.out.rstrip().endswith("report: pagesim-run.html")
    assert max(map(len, outcome.out.splitlines())) <= 80
    page = Path("pagesim-run.html").read_text()
    assert "reservation refused" in page
    assert page.count('<script type="application/json" class="figure"') == 4
    assert "while three quarters" in page or "of the memory it had given out" in page
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="(?!data:)', page), (
        "the page asks the network for something"
    )


def test_nothing_is_written_where_nothing_was_asked(pagesim: Any) -> None:
    assert pagesim(*SHORT, "--json").status == 0
    assert pagesim(*SHORT, "--no-html").status == 0
    assert os.listdir() == []


def test_a_saved_result_loads_back(pagesim: Any) -> None:
    outcome = pagesim(*SHORT, "--json", "--out", "folder/deep")
    result = RunResult.load(Path("folder/deep"))
    assert json.loads(json.dumps(result.document())) == outcome.json()
    assert result.versions.keys() >= {"pagesim", "numpy", "simpy", "python"}


def test_a_trace_runs_at_its_own_times_or_scaled(pagesim: Any, trace: Path) -> None:
    own = pagesim("run", "--trace", trace, "--json").json()
    assert own["trace"]["replications"][0]["span_s"] == 1.5
    assert own["config"]["residence"] == "decode"
    assert own["allocators"]["paged"]["refused_share"] == {"mean": 0, "low": None, "high": None}
    scaled = pagesim("run", "--trace", trace, "--load", "0.001", "--json").json()
    # (120 * 20 + 59 * 9) / 25 / 2 token-seconds a request; 2 requests over their span
    rate = 0.001 * 929_024 / ((120 * 20 + 59 * 9) / 25 / 2)
    assert scaled["trace"]["rate_per_s"] == pytest.approx(rate)
    assert scaled["trace"]["replications"][0]["span_s"] == pytest.approx(1.5 * 2 / rate)


def test_a_request_past_the_limit_is_rejected_and_counted(pagesim: Any, trace: Path) -> None:
    paged = pagesim("run", "--trace", trace, "--max-model-len", "100", "--json").json()["allocators"]["paged"]
    assert (paged["requests"], paged["admitted"], paged["rejected"], paged["refused"]) == (2, 1, 1, 0)
    said = pagesim("run", "--trace", trace, "--max-model-len", "100", "--no-html").out
    assert "Note: 50.0% of the requests can never be served and were rejected" in " ".join(said.split())
    assert "The limit is 100 tokens (--max-model-len); the longest request has 120." in " ".join(said.split())


def test_the_load_is_of_the_requests_that_can_be_served(pagesim: Any, trace: Path) -> None:
    all_of_them = pagesim("run", "--trace", trace, "--load", "0.001", "--json").json()["trace"]["rate_per_s"]
    one_of_two = pagesim("run", "--trace", trace, "--load", "0.001", "--max-model-len", "100", "--json").json()["trace"]
    assert all_of_them * (120 * 20 + 59 * 9) == pytest.approx(one_of_two["rate_per_s"] * 59 * 9)
    assert pagesim("run", "--trace", trace, "--load", "1", "--max-model-len", "10").err == (
        "error: no request has 10 tokens or less, prompt and output; accepted: a larger limit\n"
    )


def test_cards_that_share_a_model(pagesim: Any) -> None:
    cards = ("--model", "llama-3.1-70b", "--device", "h100", "--tp", "4")
    assert pagesim(*SHORT, *cards, "--json").json()["pool"]["bytes_per_token"] == 81_920


def test_names_of_a_trace_are_escaped_in_the_report(pagesim: Any) -> None:
    name = "<img src=x onerror=alert(1)>.jsonl"
    Path(name).write_text(TIMES)
    assert pagesim("run", "--trace", name, "--html", "page.html").status == 0
    page = Path("page.html").read_text()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


def test_check_asserts_while_it_runs(pagesim: Any) -> None:
    options = (*SHORT, "--allocators", "all", "--growth", "token", "--pool-tokens", "20000", "--json")
    assert pagesim(*options, "--check").out == pagesim(*options).out


def test_the_pool_of_a_card(pagesim: Any) -> None:
    card = ("--model", "qwen2.5-0.5b", "--device", "t4", "--utilization", "0.85")
    assert pagesim(*SHORT, *card, "--json").json()["pool"]["tokens"] == 929_856
    assert pagesim(*SHORT, "--num-blocks", "1000", "--json").json()["pool"]["tokens"] == 16_000


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real traces (../shared/traces) are not here")
@pytest.mark.parametrize(
    ("name", "options", "requests"),
    [
        ("azure-llm-2023/AzureLLMInferenceTrace_conv.csv", (), 19_366),
        ("azure-llm-2023/AzureLLMInferenceTrace_code.csv", (), 8_819),
        (
            "mooncake-fast25/conversation_trace.jsonl",
            ("--model", "llama-3.1-8b", "--device", "h100", "--max-model-len", "131072"),
            12_031,
        ),
    ],
)
def test_real_traces_run_as_they_are(pagesim: Any, name: str, options: tuple[str, ...], requests: int) -> None:
    outcome = pagesim("run", "--trace", SHARED / name, *options, "--json")
    assert outcome.status == 0
    allocators = outcome.json()["allocators"]
    assert {a["requests"] for a in allocators.values()} == {requests}
    assert len({a["rejected"] for a in allocators.values()}) == 1


BAD_OPTIONS = [
    (("--load", "-1"), "load '-1'"),
    (("--load", "nan"), "load 'nan'"),
    (("--load", "heavy"), "load 'heavy'"),
    (("--load", "1e-308", "--requests", "10"), "requests/s; accepted: 1e-12 to 1e+12"),
    (("--mean-residence", "5e-324", "--requests", "10"), "this load is inf requests/s"),
    (("--runs", "1000000000"), "--runs 1000000000"),
    (("--load", ""), "load ''"),
    (("--block-size", "0"), "--block-size 0"),
    (("--max-model-len", "0"), "--max-model-len 0"),
    (("--pool-tokens", "0"), "--pool-tokens 0"),
    (("--pool-tokens", "2047"), "smaller than one sequence"),
    (("--pool-tokens", "1000000000000", "--requests", "10"), "accepted: up to 33,554,432"),
    (("--pool-tokens", "5000", "--num-blocks", "5"), "--pool-tokens and --num-blocks"),
    (("--num-blocks", "58064", "--model", "t4", "--device", "t4"), "--num-blocks and --device"),
    (("--model", "qwen2.5-0.5b"), "--model without a pool"),
    (("--device", "t4"), "--device without --model"),
    (("--utilization", "0.5"), "--utilization"),
    (("--tp", "2"), "--tp"),
    (("--model", "no-such-model", "--device", "t4"), "no-such-model"),
    (("--model", "qwen2.5-0.5b", "--device", "no-such-card"), "no-such-card"),
    (("--model", "qwen2.5-0.5b", "--device", "t4", "--utilization", "1.5"), "1.5"),
    (("--allocators", "best-ever"), "allocator 'best-ever'"),
    (("--allocators", ""), "--allocators"),
    (("--allocators", "paged,paged"), "--allocators paged,paged"),
    (("--allocators", "no_such_module:X"), "no_such_module"),
    (("--allocators", "json:JSONDecoder"), "not a subclass"),
    (("--allocators", "json:NoSuchClass"), "module 'json' has no NoSuchClass"),
    (("--allocators", "exact-fit:tightest"), "exact-fit:tightest"),
    (("--runs", "0"), "--runs 0"),
    (("--seed", "-1"), "--seed -1"),
    (("--requests", "0"), "--requests 0"),
    (("--warmup", "1"), "--warmup 1"),
    (("--warmup", "nan"), "--warmup nan"),
    (("--growth", "sudden"), "--growth sudden"),
    (("--on-full", "panic"), "--on-full panic"),
    (("--residence", "forever"), "--residence forever"),
    (("--decode-rate", "5"), "--decode-rate"),
    (("--residence", "decode", "--decode-rate", "0"), "--decode-rate 0"),
    (("--mean-residence", "inf"), "--mean-residence inf"),
    (("--arrivals", "gamma:0"), "arrivals 'gamma:0'"),
    (("--arrivals", "servegen:none.csv"), "none.csv"),
    (("--lengths", "lognormal:180:260"), "0 < median < mean"),
    (("--lengths", "file:none.csv"), "none.csv"),
    (("--lengths", "uniform:9:3"), "lengths from 9 to 3"),
    (("--prompt-lengths", "fixed:5"), "--prompt-lengths and --output-lengths"),
    (("--prompt-share", "1"), "prompt share 1"),
    (("--truncate", "fold"), "--truncate fold"),
    (("--html", "none/report.html"), "there is no folder none"),
    (("--html", "."), "is a folder"),
    (("--out", "t.jsonl"), "t.jsonl"),
    (("--html", "a.html", "--no-html"), "--html and --no-html"),
    (("--trace", "none.jsonl"), "none.jsonl"),
    (("--trace", "."), "folder"),
    (("--trace", "t.jsonl", "--lengths", "fixed:9"), "--trace and --lengths"),
    (("--trace", "t.jsonl", "--runs", "3"), "--trace is one run"),
    (("--jitter", "1"), "--jitter tells how a trace is read"),
    (("--hash-block-tokens", "16"), "--hash-block-tokens tells how a trace is read"),
    (("--seed", "x"), "--seed"),
    (("--no-such-option",), "--no-such-option"),
]


@pytest.mark.parametrize(
    ("options", "said"), BAD_OPTIONS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_bad_option_is_one_line(pagesim: Any, options: tuple[str, ...], said: str) -> None:
    Path("t.jsonl").write_text(TIMES)
    outcome = pagesim("run", *options)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err
    assert os.listdir() == ["t.jsonl"]


BAD_TRACES = {
    "negative time": '{"arrival_s": -1, "prompt_tokens": 5, "output_tokens": 5}\n',
    "NaN time": '{"arrival_s": NaN, "prompt_tokens": 5, "output_tokens": 5}\n',
    "zero prompt": '{"arrival_s": 1, "prompt_tokens": 0, "output_tokens": 5}\n',
    "negative output": '{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": -5}\n',
    "empty": "",
    "a million columns": ",".join(f"c{k}" for k in range(1_000_000)) + "\n",
}


@pytest.mark.parametrize("text", BAD_TRACES.values(), ids=BAD_TRACES.keys())
def test_a_bad_trace_is_one_line(pagesim: Any, text: str) -> None:
    Path("bad.jsonl").write_text(text)
    outcome = pagesim("run", "--trace", "bad.jsonl", "--json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: bad.jsonl")
    assert outcome.err.count("\n") == 1
    assert len(outcome.err) < 600


def test_a_truncated_gz_is_one_line(pagesim: Any) -> None:
    Path("cut.jsonl.gz").write_bytes(gzip.compress(TIMES.encode() * 1000)[:-20])
    outcome = pagesim("run", "--trace", "cut.jsonl.gz", "--json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: cut.jsonl.gz")
    assert outcome.err.count("\n") == 1


def test_the_map_of_the_pool_is_in_the_report_as_long_as_is_asked(pagesim: Any) -> None:
    small = ("run", "--load", "2", "--requests", "60", "--runs", "1", "--num-blocks", "80", "--max-model-len", "256")
    assert pagesim(*small, "--html", "whole.html").status == 0
    page = Path("whole.html").read_text()
    assert 'id="map-data"' in page and "at which anything happened" in page
    assert pagesim(*small, "--html", "part.html", "--map-from", "0.5", "--map-frames", "9").status == 0
    assert re.search(r">9 moments, from 0\.\d+ s to .* as --map-from asks", Path("part.html").read_text())
    assert pagesim(*small, "--html", "none.html", "--map-frames", "0").status == 0
    assert 'id="map-data"' not in Path("none.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--map-frames", "-1"), "--map-frames -1; accepted: 0 to 20000"),
        (("--map-from", "-1"), "--map-from -1; accepted: 0 or more seconds"),
        (("--map-frames", "5", "--no-html"), "--map-frames is of the report, which is not written; accepted: --html"),
        (("--map-from", "5", "--json"), "--map-from is of the report, which is not written; accepted: --html"),
    ],
)
def test_a_mistake_about_the_map_is_one_line(pagesim: Any, words: tuple[str, ...], message: str) -> None:
    outcome = pagesim(*SHORT, *words)
    assert outcome.status == 2 and message in outcome.err and outcome.err.count("\n") == 1
