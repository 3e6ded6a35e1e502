"""A sweep that is killed at any moment goes on where it was, and comes to the same bytes."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pagesim.sim.sweep.journal import Journal

WORDS = [
    "sweep", "--pool-tokens", "5000", "--max-model-len", "500", "--lengths", "uniform:2:300", "--requests", "60",
    "--load", "0.5:2:0.5", "--block-size", "8,16", "--seeds", "8", "--no-html",
]  # fmt: skip
POINTS = 64
KILLS = 20


def command(folder: str, *more: str) -> list[str]:
    return [*WORDS, "--out", folder, *more]


def run_here(words: list[str]) -> None:
    """The body of a process that is made to be killed."""
    sys.argv, sys.stdout, sys.stderr = ["pagesim", *words], open(os.devnull, "w"), open(os.devnull, "w")  # noqa: SIM115
    from pagesim.cli import main

    main()


@pytest.fixture
def whole(pagesim: Any) -> Path:
    """Never interrupted."""
    outcome = pagesim(*command("whole", "--jobs", "1"))
    assert outcome.status == 0, outcome.err
    return Path("whole")


def results(folder: Path) -> bytes:
    return (folder / "results.parquet").read_bytes()


def journal_size(folder: Path) -> int:
    path = folder / "points.jsonl"
    return path.stat().st_size if path.exists() else 0


def test_twenty_kills_at_random_moments_change_no_byte(pagesim: Any, whole: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pagesim.commands.sweep_out", "pagesim.sim.sweep.workers", "pyarrow.parquet"])
    rng, folder, total, seen = np.random.default_rng(), Path("killed"), journal_size(whole), []
    for _ in range(KILLS):
        process = context.Process(target=run_here, args=(command("killed", "--jobs", "1"),))
        enough = journal_size(folder) + int(rng.integers(total // (KILLS + 2)))
        process.start()
        while process.is_alive() and journal_size(folder) <= enough:
            time.sleep(0.0005)
        time.sleep(float(rng.uniform(0, 0.01)))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "it was done before it could be killed"
        seen.append(journal_size(folder))
    assert not (folder / "results.parquet").exists()
    assert len(set(seen)) > KILLS // 2
    outcome = pagesim(*command("killed", "--jobs", "1"))
    told = outcome.err.splitlines()[0].split()
    assert 0 < int(told[0]) < POINTS
    assert outcome.err.startswith(f"{told[0]} of {POINTS} points to run, {POINTS - int(told[0])} skipped"), outcome.err
    assert results(folder) == results(whole)


def test_a_journal_torn_at_any_byte_of_its_last_line_is_whole_again(pagesim: Any, whole: Path) -> None:
    text = (whole / "points.jsonl").read_bytes()
    first_three = b"".join(text.splitlines(keepends=True)[:3])
    last = len(text.splitlines(keepends=True)[2])
    for cut in (1, 2, last // 2, last - 1, last):
        with Journal.opened(folder := Path(f"cut{cut}")) as journal:
            pass
        (folder / "points.jsonl").write_bytes(first_three[:-cut])
        with Journal.opened(folder) as journal:
            kept = [json.loads(line)["key"] for line in first_three.splitlines()[:2]]
            assert [key in journal for key in kept] == [True, True]
            assert journal_size(folder) == len(first_three) - last
    outcome = pagesim(*command("cut1", "--jobs", "1"))
    assert "62 of 64 points to run, 2 skipped" in outcome.err
    assert results(Path("cut1")) == results(whole)


def spawn(folder: str, *more: str) -> subprocess.Popen[str]:
    """Under a shell's `&` these tests would be started deaf to Ctrl-C, and it with them."""
    words = [sys.executable, "-m", "pagesim", *command(folder, *more)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_journal(process: subprocess.Popen[str], folder: Path) -> None:
    while journal_size(folder) == 0:
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.002)


def children(pid: int) -> list[int]:
    """Processes of the session that `pid` leads, alive and not zombies."""
    found = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(pid)], capture_output=True, text=True, check=False)
    rows = [line.split() for line in found.stdout.splitlines()]
    return [int(number) for number, state in rows if int(number) != pid and not state.startswith("Z")]


def is_deaf_to_ctrl_c(pid: int) -> bool:
    ignored = re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert ignored
    return bool(int(ignored[1], 16) & 1 << (signal.SIGINT - 1))


def test_with_workers_a_kill_loses_only_what_was_running_and_leaves_nobody_behind(pagesim: Any, whole: Path) -> None:
    process = spawn("workers", "--jobs", "2")
    wait_for_journal(process, Path("workers"))
    assert children(process.pid)
    process.kill()
    process.communicate()
    due_s = time.monotonic() + 60
    while children(process.pid):
        assert time.monotonic() < due_s, "workers outlive the process that started them"
        time.sleep(0.05)
    with Journal.opened(Path("workers")):
        pass
    outcome = pagesim(*command("workers", "--jobs", "1"))
    assert " 0 skipped" not in outcome.err
    assert results(Path("workers")) == results(whole)


@pytest.mark.parametrize("moment", ["workers start", "points come"])
def test_ctrl_c_says_where_it_goes_on(pagesim: Any, moment: str) -> None:
    process = spawn("stopped", "--jobs", "2", "--requests", "3000")
    if moment == "points come":
        wait_for_journal(process, Path("stopped"))
    else:
        while len(children(process.pid)) < 3 or is_deaf_to_ctrl_c(process.pid):  # two workers and joblib's tracker
            assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.1)  # they are in the middle of their imports
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = err.splitlines()
    assert lines[-2].endswith("points are in stopped; the same command goes on there"), err
    assert lines[-1] == "interrupted"
    assert "Traceback" not in err


def test_two_at_once_in_one_folder_are_told_apart(pagesim: Any) -> None:
    with Journal.opened(Path("one")):
        outcome = pagesim(*command("one", "--jobs", "1"))
    assert outcome.status == 2
    assert "another sweep is writing it; accepted: another --out" in outcome.err


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1}\n',
        "notes of mine, without an end of line",
        "[1]\n",
        "[" * 100_000 + "\n",
        '{"errors":{},"key":["a"],"rows":{"paged":{}},"trace":null}\n',
        '{"errors":{},"key":"a","rows":["paged"],"trace":null}\n',
        '{"errors":{},"key":"a","rows":{"paged":null},"trace":null}\n',
        '{"errors":{},"key":"a","rows":{"paged":{}},"trace":[1]}\n',
        '{"errors":["x"],"key":"a","rows":{"paged":{}},"trace":null}\n',
        '{"errors":{},"key":"a","rows":{},"trace":null}\n',
    ],
)
def test_a_file_that_is_no_journal_is_left_as_it_is(pagesim: Any, text: str) -> None:
    Path("mine").mkdir()
    Path("mine/points.jsonl").write_text(text)
    outcome = pagesim(*command("mine", "--jobs", "1"))
    assert outcome.status == 2
    assert "points.jsonl: byte 0: not a line of a sweep" in outcome.err
    assert Path("mine/points.jsonl").read_text() == text


@pytest.mark.parametrize("changed", ['"refused":"many"', '"refuzed":1'])
def test_a_figure_changed_by_hand_is_one_line(pagesim: Any, whole: Path, changed: str) -> None:
    path = whole / "points.jsonl"
    path.write_text(re.sub(r'"refused":\d+', changed, path.read_text(), count=1))
    outcome = pagesim(*command("whole", "--jobs", "1"))
    assert outcome.status == 2
    assert "points.jsonl: " in outcome.err and "accepted: as a sweep wrote it" in outcome.err


def test_a_first_line_that_is_torn_is_cut_off(whole: Path) -> None:
    line = (whole / "points.jsonl").read_bytes().splitlines()[0]
    for end in (1, 9, 12, len(line)):
        Path(f"torn{end}").mkdir()
        (path := Path(f"torn{end}/points.jsonl")).write_bytes(line[:end])
        with Journal.opened(path.parent):
            assert path.read_bytes() == b""


def test_a_larger_design_runs_only_what_is_new(pagesim: Any, whole: Path) -> None:
    outcome = pagesim(*command("whole", "--jobs", "1", "--seeds", "9"))
    assert "8 of 72 points to run, 64 skipped" in outcome.err
    pagesim(*command("fresh", "--jobs", "1", "--seeds", "9"))
    assert results(whole) == results(Path("fresh"))


def test_what_failed_is_run_again_when_asked(pagesim: Any) -> None:
    Path("moody.py").write_text(
        "from pathlib import Path\n"
        "from pagesim.sim.allocators import Paged\n"
        "class Moody(Paged):\n"
        "    def release(self, owner):\n"
        "        assert Path('fine').exists()\n"
        "        super().release(owner)\n"
    )
    words = command("moody", "--jobs", "1", "--allocators", "moody:Moody", "--seeds", "1")
    assert pagesim(*words).status == 1
    again = pagesim(*words)
    assert (again.status, "0 of 8 points to run, 8 skipped" in again.err) == (1, True)
    Path("fine").touch()
    mended = pagesim(*words, "--retry-failed")
    assert (mended.status, "8 of 8 points to run, 0 skipped" in mended.err) == (0, True), mended.out
    assert {row["error"] for row in pq.read_table("moody/results.parquet").to_pylist()} == {None}
