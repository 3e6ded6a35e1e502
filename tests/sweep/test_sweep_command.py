"""`pagesim sweep` as a user meets it: what it runs, what it keeps, what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pagesim.commands.swept import LEFT_OUT, RUN_OPTIONS
from pagesim.sim.sweep.columns import figure_columns

RESULTS = Path("pagesim-sweep/results.parquet")
SHORT = ("--requests", 300, "--seeds", 2)


def rows(path: Path = RESULTS) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return table


def test_a_row_for_each_combination_seed_and_allocator(sweep: Any) -> None:
    outcome = sweep("--load", "0.5:1.5:0.5", "--block-size", "16,64", "--allocators", "paged,buddy", *SHORT, "--json")
    assert outcome.status == 0, outcome.err
    document = outcome.json()
    assert document["schema"] == "pagesim.sweep/1"
    assert document["points"] == {"points": 12, "skipped": 0, "run": 12, "failed": 0}
    assert document["varied"] == ["load", "block_size"]
    table = rows()
    assert [(row["load"], row["block_size"], row["seed"], row["allocator"]) for row in table] == [
        (load, size, seed, name)
        for load in ("0.5", "1", "1.5") for size in (16, 64) for seed in (0, 1) for name in ("buddy", "paged")
    ]  # fmt: skip
    assert {row["error"] for row in table} == {None}
    assert ds.dataset(RESULTS).count_rows() == document["rows"] == 24


def test_a_row_is_what_run_prints_for_it(sweep: Any, pagesim: Any) -> None:
    sweep("--load", "1.5,2", "--growth", "token", *SHORT)
    row = next(row for row in rows() if (row["load"], row["seed"], row["allocator"]) == ("2", 1, "paged"))
    words = ("--load", 2, "--growth", "token", "--requests", 300, "--pool-tokens", 20_000)
    document = pagesim("run", *words, "--seed", 1, "--runs", 1, "--json").json()
    paged = document["allocators"]["paged"]
    assert row["refused"] == paged["refused"] > 0
    for name in ("refused_share", "occupied", "internal", "steady_sequences"):
        assert row[name] == paged[name]["mean"]
    assert row["at_refusal_asked_mean"] == paged["at_refusal"]["asked_mean"]
    assert row["trace_sha256"] == document["trace"]["sha256"]
    assert json.loads(row["config"]) | {"seed": 1} == document["config"]


def test_a_row_of_serving_is_what_run_prints_for_it(sweep: Any, pagesim: Any) -> None:
    queue = ("--on-full", "queue", "--load", "1.3", "--slo", "ttft<2s,tpot<50ms")
    assert sweep(*queue, *SHORT, "--max-num-seqs", "8,64").status == 0
    row = next(row for row in rows() if (row["max_num_seqs"], row["seed"], row["allocator"]) == (64, 1, "paged"))
    words = ("--max-num-seqs", 64, "--requests", 300, "--pool-tokens", 20_000, "--seed", 1, "--runs", 1)
    paged = pagesim("run", *queue, *words, "--json").json()["allocators"]["paged"]
    assert row["ttft_s_p99"] == paged["ttft_s"]["p99"]["mean"] > 0
    assert row["goodput_per_s"] == paged["goodput_per_s"]["mean"]
    assert row["waited_no_blocks_share"] == paged["waited"]["no blocks"]["share"]["mean"]
    assert row["waited_no_blocks_heads"] == paged["waited"]["no blocks"]["heads"]
    assert row["preemptions"] == paged["preemptions"]
    assert row["prefix_queries_first"] == paged["prefix"]["prefix_queries_first"]


def test_allocators_and_variants_see_the_same_requests(sweep: Any) -> None:
    sweep("--load", "1", "--block-size", "8,16", *SHORT, "--allocators", "all")
    by_seed: dict[int, set[str]] = {}
    for row in rows():
        by_seed.setdefault(row["seed"], set()).add(row["trace_sha256"])
    assert [len(hashes) for hashes in by_seed.values()] == [1, 1]
    assert by_seed[0] != by_seed[1]


def test_every_option_of_run_that_decides_a_result_can_be_swept(pagesim: Any) -> None:
    shown = pagesim("sweep", "--help").out
    run_help = pagesim("run", "--help").out
    flags = {word for word in run_help.replace(",", " ").split() if word.startswith("--")}
    own = {"--" + name.replace("_", "-") for name in LEFT_OUT} | {"--json", "--help"}
    missing = {each for each in flags - own if each not in shown}
    assert missing == set(), missing
    assert len(RUN_OPTIONS) > 45


def test_both_disciplines_in_one_sweep_have_the_columns_of_both(sweep: Any) -> None:
    assert sweep("--on-full", "refuse,queue", "--allocators", "paged", *SHORT).status == 0
    names = set(pq.read_schema(RESULTS).names)
    assert names >= set(figure_columns(False)) | set(figure_columns(True))
    refuse, queue = rows()[0], rows()[-1]
    assert refuse["refused"] is not None and refuse["ttft_s_p99"] is None
    assert queue["refused"] is None and queue["ttft_s_p99"] is not None


def test_a_file_says_the_same_and_the_command_line_goes_before_it(sweep: Any) -> None:
    Path("design.toml").write_text(
        'load = "0.5:1.5:0.5"\nblock-size = [16, 64]\nallocators = ["paged", "buddy"]\nrequests = 300\nseeds = 2\n'
    )
    assert sweep("--load", "0.5:1.5:0.5", "--block-size", "16,64", "--allocators", "paged,buddy", *SHORT).status == 0
    assert sweep("design.toml", "--out", "two").status == 0
    assert Path("two/results.parquet").read_bytes() == RESULTS.read_bytes()
    sweep("design.toml", "--out", "three", "--seeds", 1, "--load", 2)
    assert [row["load"] for row in rows(Path("three/results.parquet"))] == ["2"] * 4


def test_switches_take_on_and_off(sweep: Any) -> None:
    Path("design.toml").write_text('on-full = "queue"\nno-chunked-prefill = [true, false]\n')
    outcome = sweep("design.toml", *SHORT, "--allocators", "paged")
    assert [row["no_chunked_prefill"] for row in rows()] == [True, True, False, False]
    shown = [line.split()[:2] for line in outcome.out.splitlines() if "paged" in line]
    assert shown == [["on", "paged"], ["off", "paged"]]


def test_a_random_design_draws_from_intervals(sweep: Any) -> None:
    assert sweep("--random", 6, "--load", "0.5:2", "--block-size", "16,32", *SHORT, "--allocators", "paged").status == 0
    loads = {row["load"] for row in rows()}
    assert len(loads) == 6 and all(0.5 <= float(load) <= 2 for load in loads)


def test_what_makes_no_sense_is_recorded_and_stops_nothing(sweep: Any) -> None:
    words = ("--on-full", "queue", "--policy", "fcfs,priority", "--victim", "last,longest", *SHORT)
    outcome = sweep(*words, "--allocators", "paged", "--json")
    assert outcome.status == 1
    assert [line["error"] is None for line in outcome.json()["lines"]] == [True, True, True, False]
    assert [row["error"] for row in rows()][:-1] == [None] * 6
    assert "--policy priority and --victim longest" in rows()[-1]["error"]


def test_an_allocator_that_breaks_is_recorded_and_the_others_are_not_lost(sweep: Any) -> None:
    Path("broken_one.py").write_text(
        "from pagesim.sim.allocators import Paged\n"
        "class Broken(Paged):\n"
        "    def release(self, owner):\n"
        "        raise RuntimeError('no way\\nout')\n"
    )
    outcome = sweep("--load", "0.5,1", *SHORT, "--allocators", "paged,broken_one:Broken")
    assert outcome.status == 1
    assert "RuntimeError: no way out" in " ".join(outcome.out.split())
    assert [(row["allocator"], row["error"], row["admitted"] is None) for row in rows()] == [
        ("paged", None, False), ("broken_one:Broken", "RuntimeError: no way out", True),
    ] * 4  # fmt: skip


def test_another_trace_under_the_same_name_is_another_point(sweep: Any) -> None:
    line = '{"arrival_s": 0.5, "prompt_tokens": %d, "output_tokens": 20}\n'
    Path("t.jsonl").write_text(line % 100)
    assert "1 point run" in " ".join(sweep("--trace", "t.jsonl").out.split())
    assert "1 skipped" in " ".join(sweep("--trace", "t.jsonl").out.split())
    Path("t.jsonl").write_text(line % 101)  # as long as before, in the same process
    other = sweep("--trace", "t.jsonl")
    assert other.status == 0 and "1 point run" in " ".join(other.out.split())
    assert {row["mean_tokens"] for row in rows()} == {121}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--load", "0.5:1"),
            "--load is an interval; accepted: LOW:HIGH:STEP, or, to draw from it, `sweep --random N`",
        ),
        (("--block-size", "16,many"), "--block-size 'many'; accepted: a whole number, or LOW:HIGH:STEP"),
        (("--load", "1,-2", "--allocators", "nobody"), "allocator 'nobody' is unknown"),
        (("--lengths", "zipf:3"), "zipf"),
        (("--seeds", 0), "--seeds 0; accepted: 1 to 100000"),
        (("--design-seed", 1), "--design-seed is of a random design; accepted: together with --random"),
        (("--random", 0), "--random 0; accepted: 1 to"),
        (("--random", 1, "--design-seed", -1), "--design-seed -1; accepted: 0 or more"),
        (("--trace", "t.jsonl", "--seeds", 2), "--trace is one run; accepted: --seeds 1"),
        (("none.toml",), "none.toml: cannot be read"),
        (("--cluster", "tcp://127.0.0.1:1"), "--jobs and --cluster given; accepted: one of"),
    ],
)
def test_a_mistake_is_one_line(sweep: Any, words: tuple[object, ...], said: str) -> None:
    outcome = sweep(*words)
    assert outcome.status == 2
    assert outcome.err.splitlines()[-1].startswith("error: ") and said in outcome.err, outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("load = ", "not TOML"),
        ("html = 'x'", "'html'; accepted: options of `pagesim sweep`"),
        ("load = []", "'load' is empty; accepted: one value or more"),
        ("load = {a = 1}", "accepted: a number, a text, true or false"),
        ("block-size = 16\nblock_size = 32", "'block_size' is there twice"),
        ("seeds = 'many'", "--seeds many; accepted: a whole number"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(sweep: Any, text: str, said: str) -> None:
    Path("design.toml").write_text(text)
    outcome = sweep("design.toml")
    assert outcome.status == 2
    assert said in outcome.err, outcome.err


def test_an_allocator_that_exits_is_recorded_and_its_name_stays_as_it_is(sweep: Any, pagesim: Any) -> None:
    Path("leaver.py").write_text(
        "from pagesim.sim.allocators import Paged\nclass A(Paged):\n"
        "    def release(self, owner):\n        raise SystemExit(4)\n"
    )
    outcome = sweep(*SHORT, "--allocators", "paged,leaver:A")
    assert outcome.status == 1, outcome.err
    said = "allocator 'leaver:A' ended the program (SystemExit: 4); accepted: one that returns"
    assert [row["error"] for row in rows()] == [None, said] * 2
    words = ("--slo", "refused<5%", "--pool-tokens", 20_000, "--requests", 50, "--seeds", 1, "--jobs", 1)
    found = pagesim("frontier", *words, "--allocators", "paged,leaver:A")
    assert found.status == 1, found.err
    assert "'leaver:A' ended the program" in " ".join(found.out.split())  # and no emoji, which :A: is to rich


def test_another_version_is_another_point(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "2 of 2 points to run" in sweep("--load", 1, *SHORT).err
    assert "2 skipped" in sweep("--load", 1, *SHORT).err
    monkeypatch.setattr("pagesim.sim.sweep.plan.__version__", "0.0.0")
    assert "2 of 2 points to run" in sweep("--load", 1, *SHORT).err


def test_ends_of_an_interval_of_what_cannot_be_negative_are_not(sweep: Any) -> None:
    words = ("--load", 1.2, "--on-full", "queue", "--requests", 50, "--seeds", 2, "--json")
    figures = [figure for line in sweep(*words).json()["lines"] for figure in line["figures"].values() if figure]
    assert 0.0 in {figure["low"] for figure in figures if figure["mean"] > 0}, "none was cut off: nothing is shown"
    assert all(figure["low"] >= 0 for figure in figures)


def test_where_nothing_can_be_run_there_is_no_table(sweep: Any) -> None:
    outcome = sweep("--max-model-len", 30_000, "--requests", 50, "--seeds", 1)
    assert outcome.status == 1
    assert outcome.out.startswith("- 1 combination with 1 seed")
    assert "accepted: a max_model_len up to 20000" in " ".join(outcome.out.split())


def test_a_module_that_exits_when_it_is_imported_is_one_line(sweep: Any) -> None:
    Path("exits_at_once.py").write_text("raise SystemExit(3)\n")
    outcome = sweep("--allocators", "exits_at_once:A")
    assert outcome.status == 2
    assert "module 'exits_at_once' cannot be imported (SystemExit: 3)" in outcome.err
