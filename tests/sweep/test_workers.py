"""Workers that die, here and on a Dask cluster of this machine; nothing is lost but what was running."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from joblib.externals.loky import get_reusable_executor

from pagesim.sim.config import RunConfig
from pagesim.sim.sweep.named_files import file_hash
from pagesim.sim.sweep.point import Point

WORDS = (
    "sweep", "--pool-tokens", 5000, "--max-model-len", 500, "--lengths", "uniform:2:300", "--no-html",
)  # fmt: skip
DEADLY = """
import os
from pagesim.sim.allocators import Paged
class Deadly(Paged):
    def place(self, owner, tokens):
        if self.pool.block_size == 8:
            os._exit(9)
        return super().place(owner, tokens)
"""


@pytest.fixture(autouse=True)
def _workers_of_their_own() -> Iterator[None]:
    """joblib keeps workers for the next call: they would stay in the folder of the test before."""
    yield
    get_reusable_executor().shutdown(wait=True)
    gc.collect()


def results(folder: str) -> bytes:
    return (Path(folder) / "results.parquet").read_bytes()


def test_one_process_or_two_give_the_same_bytes(pagesim: Any) -> None:
    words = (*WORDS, "--requests", 60, "--seeds", 3, "--load", "0.5:2:0.5")
    assert pagesim(*words, "--out", "one", "--jobs", 1).status == 0
    assert pagesim(*words, "--out", "two", "--jobs", 2).status == 0
    assert results("one") == results("two")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pipes of a broken pool of joblib
def test_a_point_that_kills_its_worker_is_told_and_all_others_are_run(pagesim: Any) -> None:
    Path("deadly.py").write_text(DEADLY)
    words = (*WORDS, "--requests", 60, "--seeds", 1, "--load", "1,2", "--allocators", "deadly:Deadly")
    outcome = pagesim(*words, "--block-size", "16,8,32", "--jobs", 2)
    assert outcome.status == 1, outcome.err
    rows = pq.read_table("pagesim-sweep/results.parquet").to_pylist()
    assert len(rows) == 6
    for row in rows:
        assert ("the worker died while it ran this alone" in str(row["error"])) == (row["block_size"] == 8)
        assert (row["admitted"] is None) == (row["block_size"] == 8)


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def worker(address: str) -> Any:
    words = ("distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard", "--nthreads", "1")
    return process(*words, "--local-directory", str(Path.cwd()))


@pytest.fixture
def scheduler() -> Iterator[str]:
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", "scheduler.json")
    with process("distributed.cli.dask_scheduler", *words):
        yield address(Path("scheduler.json"))


def address(file: Path) -> str:
    due_s = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < due_s
        time.sleep(0.05)
    found: str = json.loads(file.read_text())["address"]
    return found


def wait_for_workers(where: str, count: int) -> None:
    from distributed import Client

    with Client(where, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


def lines(folder: str) -> int:
    path = Path(folder) / "points.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_dask_cluster_gives_the_same_bytes_though_a_worker_is_killed(pagesim: Any, scheduler: str) -> None:
    words = [str(word) for word in (*WORDS, "--requests", 1500, "--seeds", 6, "--load", "0.5:2:0.5")]
    with worker(scheduler) as first, worker(scheduler):
        wait_for_workers(scheduler, 2)
        driver = subprocess.Popen(
            [sys.executable, "-m", "pagesim", *words, "--out", "cluster", "--cluster", scheduler],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while lines("cluster") < 4:
            assert driver.poll() is None, driver.stderr and driver.stderr.read()
            time.sleep(0.002)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        at_kill = lines("cluster")
        _, err = driver.communicate(timeout=120)
    assert driver.returncode == 0, err
    assert at_kill < 24, "it was done before the worker was killed"
    assert pagesim(*words, "--out", "here", "--jobs", 1).status == 0
    assert results("cluster") == results("here")


def test_a_cluster_that_is_not_there_is_one_line(pagesim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dask_workers = pytest.importorskip("pagesim.sim.sweep.dask_workers")
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    monkeypatch.setattr(dask_workers, "TIMEOUT_S", 0.3)
    outcome = pagesim(*WORDS, "--requests", 60, "--cluster", "tcp://127.0.0.1:9")
    assert outcome.status == 2
    assert "error: --cluster tcp://127.0.0.1:9: no Dask scheduler answers" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_cluster_without_workers_is_one_line(pagesim: Any, scheduler: str) -> None:
    outcome = pagesim(*WORDS, "--requests", 60, "--cluster", scheduler)
    assert outcome.status == 2
    assert "no worker is there; accepted: one or more" in outcome.err


def test_a_worker_with_other_files_or_another_version_says_so() -> None:
    Path("other_there.txt").write_text("not what was planned")
    files = Point("k-0", RunConfig(), {"other_there.txt": "0" * 64}).run()
    version = Point("k-0", RunConfig(), {}, version="0.0.0").run()
    for outcome, said in ((files, "other_there.txt: not the file that the sweep was planned with"),
                          (version, "on a worker; accepted: 0.0.0")):  # fmt: skip
        assert outcome["rows"] == {} and outcome["errors"].keys() == set(RunConfig().allocators)
        assert all(said in error for error in outcome["errors"].values())


def test_a_worker_that_lives_on_takes_an_allocator_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster, whose workers outlive a sweep."""
    source = "from pagesim.sim.allocators import Paged\nclass Changing(Paged):\n    def place(self, owner, tokens):\n"
    monkeypatch.syspath_prepend(str(Path.cwd()))
    config = RunConfig(allocators=("changing_here:Changing",))
    for body, said in (("raise ValueError('first')", "first"), ("raise ValueError('and second')", "and second")):
        (file := Path("changing_here.py").absolute()).write_text(f"{source}        {body}\n")
        outcome = Point("k-0", config, {str(file): file_hash(str(file))}).run()
        assert outcome["errors"] == {"changing_here:Changing": f"ValueError: {said}"}
