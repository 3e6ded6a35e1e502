"""`pagesim validate replay` as a person calls it: exit status, table, JSON, page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from replayed import OURS

from pagesim import cli
from pagesim.commands import validate_replay
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.pool import CountingPool

SCHEDULE = {
    "agrees", "steps", "steps_that_agree", "findings", "divergence", "rejected", "not_offered", "totals",
}  # fmt: skip


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *given: object) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["pagesim", "validate", "replay", *map(str, given)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0, *capsys.readouterr()


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    return lambda *given: call(monkeypatch, capsys, *given)


@pytest.mark.parametrize("allocator", ["paged", "reservation", "exact-fit:best"])
def test_a_load_without_a_model(replay: Any, allocator: str) -> None:
    status, out, _ = replay("--load", "high", "--requests", 60, "--allocator", allocator, "--no-model", "--json")
    document = json.loads(out)
    assert status == 0 and document["schema"] == "pagesim.replay/1" and document["agrees"]
    assert document["logical"].keys() == SCHEDULE and document["logical"]["findings"] == []
    assert document["requests"] == 60 and document["rules"]["allocator"] == allocator
    assert document["physical"] is None and document["time"] is None
    assert document["blocks_used_unit"] == ("blocks" if allocator == "paged" else "slots")


def test_the_table_and_the_page(replay: Any, tmp_path: Path) -> None:
    status, out, _ = replay("--load", "high", "--requests", 60, "--no-model")
    assert status == 0 and "They agree in every one of" in out and "report: pagesim-replay.html" in out
    assert "No model ran: the pool was not read" in out
    page = (tmp_path / "pagesim-replay.html").read_text()
    assert "Plotly.newPlot" in page and "pagesim validate replay --load high" in page and "The two schedules" in page
    assert '<script src="http' not in page
    assert "prefers-color-scheme: dark" in page and page.index('"font.color": ink()') > page.rindex("Plotly.newPlot")


def test_with_a_model(replay: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")
    options = ("--requests", 15, "--kv-bytes", "1MiB", "--max-model-len", 256, "--lengths", "fixed:60")
    status, out, _ = replay(*options, "--json", "--html", "page.html")
    document = json.loads(out)
    physical = document["physical"]
    assert status == 0 and physical["num_blocks"] == document["rules"]["num_blocks"] == 64
    assert physical["logical"].keys() == SCHEDULE and all(sample["agrees"] for sample in physical["samples"])
    assert "The pool, as reckoned and as it is" in (tmp_path / "page.html").read_text()
    status, out, _ = replay(*options, "--no-html")
    assert status == 0 and "with random:tiny" in out and "slots of the pool, mean" in out


def test_the_comparison_is_shown_where_the_times_could_not_be_had(
    replay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")

    def fails(setup: Any, at: list[float]) -> Any:
        raise UsageError("9 rows to fit on, which leave nothing for a step by itself")

    monkeypatch.setattr(validate_replay, "_in_real_time", fails)
    given = ("--requests", 8, "--num-blocks", 33, "--max-model-len", 128, "--lengths", "fixed:40", "--time")
    status, out, error = replay(*given, "--html", "page.html")
    assert status == 2 and "They agree in every one of" in out and (tmp_path / "page.html").exists()
    assert "9 rows to fit on" in error and error.count("\n") == 1
    status, out, _ = replay(*given, "--json")
    assert status == 2 and json.loads(out)["agrees"] and json.loads(out)["time"] is None


def test_in_real_time(replay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")
    monkeypatch.setattr("pagesim.validate.calibrate.source.REPEATS", 1)
    measure, kept = validate_replay._in_real_time, []

    def once(setup: Any, at: list[float]) -> Any:
        if not kept:
            kept.append(measure(setup, at))
        return kept[0]

    monkeypatch.setattr(validate_replay, "_in_real_time", once)
    given = ("--requests", 12, "--num-blocks", 33, "--max-model-len", 128, "--lengths", "lognormal:40:20", "--time")
    status, out, _ = replay(*given, "--time-loads", "0.8,3", "--json", "--html", "page.html")
    document = json.loads(out)
    time = document["time"]
    assert status == 0 and document["agrees"], "whatever the times"
    assert time.keys() == {"calibration", "knee_requests_per_s", "requests", "runs"} and time["requests"] == 12
    assert [(run["load"], run["where"]) for run in time["runs"]] == [(0.8, "below the knee"), (3, "above the knee")]
    for run in time["runs"]:
        assert run["rate_per_s"] == pytest.approx(run["load"] * time["knee_requests_per_s"])
        latencies = {f"{what}.{q}" for what in ("ttft_s", "tpot_s", "e2e_s") for q in ("p50", "p95", "p99")}
        assert run["errors"].keys() == latencies | {"output_tokens_per_s"}
        for side in ("engine", "simulator"):
            assert run[side]["ttft_s"]["count"] == 12 and run[side]["output_tokens_per_s"] > 0
        ours, measured = (run[side]["e2e_s"]["p95"] for side in ("simulator", "engine"))
        assert run["errors"]["e2e_s.p95"] == pytest.approx(ours / measured - 1, rel=1e-6, abs=1e-6)
    page = (tmp_path / "page.html").read_text()
    assert "Times, held out" in page and "Latencies in real time" in page and "above the knee, load 3" in page
    status, out, _ = replay(*given, "--no-html")  # the same times, in a table
    assert status == 0 and "its figures here are held out" in out and "off by" in out and "TPOT p99, ms" in out


def test_a_trace_and_scenarios(replay: Any, tmp_path: Path) -> None:
    rows = [{"arrival_s": k / 4, "prompt_tokens": 20 + k, "output_tokens": 9} for k in range(30)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for given in (
        ("--trace", "own.jsonl", "--limit", 20),
        ("--scenario", OURS / "storm_cached.json.gz"),
        ("--scenario", "n8"),
    ):
        status, out, err = replay(*given, "--no-model", "--json")
        assert status == 0, err
        assert json.loads(out)["agrees"]


def test_a_difference_is_exit_status_1_and_shown(replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = CountingPool.finish
    monkeypatch.setattr(CountingPool, "finish", lambda self, row, computed: original(self, row, computed - self._size))
    given = ("--scenario", OURS / "tiny_preempt.json.gz", "--no-model")
    status, out, _ = replay(*given)
    assert status == 1
    assert "first divergence, step 6: blocks_used\n" in out
    assert "agreed before step 5 at 5 s" in out and "computed: A 11, C 9" in out and "They differ" in out
    status, out, _ = replay(*given, "--json")
    divergence = json.loads(out)["logical"]["divergence"]
    assert status == 1 and divergence["step"] == 6 and divergence["columns"] == ["blocks_used"]
    assert (divergence["simulator"]["blocks_used"], divergence["engine"]["blocks_used"]) == (7, 6)
    assert divergence["engine"]["admitted"] == [["C", 0]] and divergence["before"]["finished"] == ["B"]
    assert divergence["states"] == {"simulator": [["A", 11], ["C", 9]], "engine": [["A", 11], ["C", 9]]}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--allocator", "buddy"), "--allocator buddy cannot be replayed"),
        (("--scenario", "nothing"), "--scenario nothing; accepted: starved"),
        (("--scenario", "starved", "--seed", "1"), "--seed and --scenario"),
        (("--kv-bytes", "1GiB"), "a pool in bytes without a model"),
        (("--kv-bytes", "1GiB", "--num-blocks", "9"), "--num-blocks and --kv-bytes; accepted: one of"),
        (("--num-blocks", "0"), "--num-blocks 0; accepted: 2 or more"),
        (("--trace", "missing.jsonl"), "missing.jsonl"),
        (("--trace", "missing.jsonl", "--requests", "3"), "--trace and --requests given"),
        (("--time",), "--time and --no-model: a scheduler alone takes no time"),
        (("--time-loads", "1"), "--time-loads without --time"),
        (("--html", "nowhere/page.html"), "there is no folder nowhere"),
        (("--html", "a.html", "--no-html"), "--html and --no-html given"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_2(replay: Any, given: tuple[str, ...], line: str) -> None:
    status, out, err = replay(*given, "--no-model")
    assert status == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and line in err


def long_rows(tmp_path: Path, arrivals: tuple[float, ...], prompt: int) -> Path:
    rows = [{"arrival_s": each, "prompt_tokens": prompt, "output_tokens": 30} for each in arrivals]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "rows.jsonl"


def test_a_trace_of_which_nothing_fits_is_told_and_does_not_agree(replay: Any, tmp_path: Path) -> None:
    trace = long_rows(tmp_path, (0, 1, 2), 500)
    status, out, err = replay("--trace", trace, "--no-model", "--max-model-len", 100)
    assert status == 2 and out == "" and "none of 3 requests has --max-model-len 100 tokens or less" in err


def test_arrivals_without_a_rate_are_told_before_anything_is_measured(
    replay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")
    monkeypatch.setattr("pagesim.validate.replay.logical.replay_logically", None)  # not called
    trace = long_rows(tmp_path, (0, 0, 0), 50)
    status, out, err = replay("--trace", trace, "--time", "--duplicates", "keep")
    assert status == 2 and out == "" and "the 3 requests that can be served have none: all arrive at once" in err


def test_the_scheduler_alone_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "sys.argv = ['pagesim', 'validate', 'replay', '--no-model', '--requests', '20', '--json']\n"
        "from pagesim import cli; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["agrees"]


@pytest.mark.parametrize("loads", ["", "0", "1,-2", "1,,2", "fast", "inf", "nan"])
def test_bad_loads_are_refused(replay: Any, loads: str) -> None:
    status, out, err = replay("--time", "--time-loads", loads)
    assert status == 2 and out == "" and f"--time-loads '{loads}'; accepted: numbers above 0, like 0.5,1,2" in err
