"""`pagesim trace` as a person calls it: what stands on stdout, what on stderr, and the exit status."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pagesim.commands.reading import DEFAULTS
from pagesim.sim import fetch as fetching
from pagesim.sim.errors import TraceError
from pagesim.sim.formats import read_trace
from pagesim.sim.reading import ReadOptions, ReadReport

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
ROWS = [(0, 600, [1, 2]), (3000, 600, [1, 2]), (3000, 600, [1, 2]), (6000, 500, [1])]


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    path = tmp_path / "mooncake.jsonl"
    rows = [{"timestamp": at, "input_length": tokens, "output_length": 7, "hash_ids": ids} for at, tokens, ids in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_info_for_people(pagesim: Any, mooncake: Path) -> None:
    outcome = pagesim("trace", "info", mooncake)
    assert outcome.status == 0
    text = " ".join(outcome.out.replace("│", " ").split())
    for fact in (
        "format mooncake",
        "rows read 4",
        "requests 4",
        "span 6.000 s",
        "rate 0.5 requests/s",
        "hash ids one for 512 tokens, 2 distinct",
        "an endless cache finds 73.9% of prompt tokens (1,700)",
        "71.4% of blocks (5 of 7)",
        "prompt 575.0 600 600 600 2,300",
        "output 7.0 7 7 7 28",
    ):
        assert fact in text
    assert outcome.err == f"{mooncake}: 1 row equal to an earlier one: kept\n"


def test_info_as_json(pagesim: Any, mooncake: Path) -> None:
    answer = pagesim("trace", "info", mooncake, mooncake, "--json", "--duplicates", "drop").json()
    assert answer["schema"] == "pagesim.trace-info/1"
    first, second = answer["traces"]
    assert first == second
    assert (first["path"], first["requests"], first["span_s"]) == (str(mooncake), 3, 6)
    assert first["sharing"]["token_share"] == round(1100 / 1700, 9)
    assert first["sha256"] == read_trace(mooncake, ReadOptions(duplicates="drop"))[0].sha256()
    assert first["reading"]["changed"] == ["1 row equal to an earlier one: dropped"]
    assert set(first["reading"]) == {field.name for field in fields(ReadReport)} | {"changed"}


def test_every_option_reaches_the_reader(pagesim: Any, mooncake: Path) -> None:
    text = "--on-bad-row skip --zero-output one --unsorted stop --duplicates drop --jitter 3 --jitter-seed 5"
    words = f"{text} --hash-block-tokens 512 --start keep --limit 3".split()
    answer = pagesim("trace", "info", mooncake, *words, "--json").json()["traces"][0]
    options = ReadOptions("skip", "one", "stop", "drop", 3, 5, 512, "keep", 3)
    trace, report = read_trace(mooncake, options)
    assert answer["sha256"] == trace.sha256()
    assert answer["reading"] == json.loads(json.dumps(report.as_dict()))
    defaults = {
        field.name for field in fields(ReadOptions) if getattr(options, field.name) == getattr(DEFAULTS, field.name)
    }
    assert defaults == set(), "an option that this test does not change"


PUBLISHED = [
    (
        "azure-llm-2023/AzureLLMInferenceTrace_code.csv",
        ["8,819", "3,435.948 s", "prompt 2,047.8 1,469 7,303 7,437", "output 27.9 13 90 1,899"],
    ),
    (
        "azure-llm-2023/AzureLLMInferenceTrace_conv.csv",
        ["19,366", "3,501.722 s", "prompt 1,154.7 1,020 4,083 14,050", "output 211.1 129 451 1,000"],
    ),
    (
        "mooncake-fast25/conversation_trace.jsonl",
        ["3,536.999 s", "37.4% of prompt", "36.6% of blocks", "prompt 12,035.1 6,909 39,550 126,195", "350 698 2,000"],
    ),
]


@pytest.mark.parametrize(("name", "facts"), PUBLISHED)
def test_the_published_figures_are_printed(pagesim: Any, name: str, facts: list[str]) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"the public trace {name} is not beside the repository, in ../shared/traces")
    text = " ".join(pagesim("trace", "info", SHARED / name).out.replace("│", " ").split())
    for fact in facts:
        assert fact in text


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
def test_convert_and_back(pagesim: Any, mooncake: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"ours{ending}"
    outcome = pagesim("trace", "convert", mooncake, target)
    sha256 = read_trace(mooncake)[0].sha256()
    assert outcome.out == f"{target}: 4 requests, content sha256 {sha256}\n"
    assert "1 row equal to an earlier one: kept" in outcome.err
    answer = pagesim("trace", "convert", target, tmp_path / "again.parquet", "--json").json()
    assert (answer["schema"], answer["sha256"], answer["requests"]) == ("pagesim.trace-convert/1", sha256, 4)
    assert answer["reading"]["format"] == "pagesim"


def test_bad_input_is_one_line_and_status_2(pagesim: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n1,-4,1\n")
    for words in (("info", bad), ("info", bad, "--json"), ("convert", bad, tmp_path / "out.parquet")):
        outcome = pagesim("trace", *words)
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err.startswith(f"error: {bad}, line 3: num_prefill_tokens is -4; accepted: a whole number")
        assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_wrong_options_are_one_line_and_status_2(pagesim: Any, mooncake: Path, tmp_path: Path) -> None:
    nowhere, unknown = tmp_path / "no" / "out.jsonl", tmp_path / "out.csv"
    for words, message in (
        (("info", mooncake, "--on-bad-row", "ignore"), "on-bad-row 'ignore'; accepted: stop, skip"),
        (("info", mooncake, "--jitter", "-1"), "jitter -1 s; accepted"),
        (("convert", tmp_path / "nothing", unknown), "accepted: one ending in .jsonl, .jsonl.gz, .parquet"),
        (("convert", mooncake, nowhere), f"{nowhere}: there is no folder {nowhere.parent}"),
        (("info", tmp_path), "is a folder; accepted: a file"),
        (("fetch", "nothing"), "no public trace is called 'nothing'; accepted: azure-2023-code"),
    ):
        outcome = pagesim("trace", *words)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert message in outcome.err


@pytest.mark.parametrize("words", [["fetch"], ["fetch", "--list"]])
def test_public_traces_are_listed(pagesim: Any, words: list[str]) -> None:
    text = pagesim("trace", *words).out
    answer = pagesim("trace", *words, "--json").json()
    assert answer["schema"] == "pagesim.trace-list/1"
    for trace in answer["traces"]:
        for key in ("name", "license", "url"):
            assert trace[key] in text
        assert f"{trace['size_bytes']:,} bytes" in text


def test_fetch_says_where_the_file_is(pagesim: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = fetching.PublicTrace(
        "mine", "a file", "azure", "CC0-1.0", 3, hashlib.sha256(b"abc").hexdigest(), "https://x/a.csv"
    )
    monkeypatch.setattr(fetching, "public_traces", lambda: {"mine": trace})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "pagesim" / "traces" / "mine.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"abc")
    outcome = pagesim("trace", "fetch", "mine")
    assert (outcome.out, outcome.err) == (f"{path}\n", "mine: CC0-1.0, was there already\n")
    answer = pagesim("trace", "fetch", "mine", "--json").json()
    assert (answer["schema"], answer["path"], answer["fetched"]) == ("pagesim.trace-fetch/1", str(path), False)


def test_a_failed_fetch_leaves_nothing(pagesim: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise TraceError("https://x/a.csv: the server answers 404 Not Found")

    monkeypatch.setattr(fetching, "_download", fail)
    outcome = pagesim("trace", "fetch", "azure-2023-code", "--to", tmp_path / "here")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "error: https://x/a.csv: the server answers 404 Not Found\n"
    assert list((tmp_path / "here").iterdir()) == []


def test_prompts_that_begin_alike(pagesim: Any, tmp_path: Path) -> None:
    """Four texts of 64 tokens: whoever comes second with one finds it whole, and nothing else."""
    out = tmp_path / "trace.jsonl"
    words = ("trace", "generate", out, "--rate", "1", "--requests", "50", "--lengths", "uniform:20:60")
    assert pagesim(*words, "--prefixes", "4:64", "--json").json()["prefixes"] == "4:64"
    plain = tmp_path / "plain.jsonl"
    pagesim("trace", "generate", plain, *words[3:])
    with_texts, without = (read_trace(path)[0] for path in (out, plain))
    assert (with_texts.prompt_tokens - without.prompt_tokens == 64).all()
    assert with_texts.arrival_s.tolist() == without.arrival_s.tolist()
    run = ("run", "--on-full", "queue", "--trace", out, "--prefix-caching", "--allocator", "paged", "--json")
    assert pagesim(*run).json()["allocators"]["paged"]["prefix"]["prefix_hits_first"] == 46 * 64


@pytest.mark.parametrize("text", ["4", "4:60", "0:64", "a:b", "4:64:1", "-1:64"])
def test_prefixes_that_make_no_sense(pagesim: Any, tmp_path: Path, text: str) -> None:
    outcome = pagesim("trace", "generate", tmp_path / "t.jsonl", "--rate", "1", "--requests", "5", f"--prefixes={text}")
    assert outcome.status == 2 and "accepted: COUNT:TOKENS, TOKENS a multiple of 16" in outcome.err


def test_help_loads_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; sys.argv = ['pagesim', 'trace', 'info', '--help']; from pagesim.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*{'numpy', 'pyarrow', 'msgspec', 'scipy'} & set(sys.modules), file=sys.stderr)"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stderr == "\n"
