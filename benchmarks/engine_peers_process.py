"""An engine of `engine_peers.py` as a process: started, asked to serve the load again and again, and ended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from statistics import median
from typing import IO, Any

from engine_peers_setup import NUM_REQUESTS, OUTPUT, PeerError, last_line

ROOT = Path(__file__).resolve().parent.parent
CHILD = ROOT / "benchmarks" / "engine_peers_child.py"
PATIENCE_S = 600  # with one answer; compilation takes a minute or two on two cores


@dataclass
class Engine:
    """One engine under one model's load. `seconds` and, of the processor, `cpu_s`: of each run. `failure`: why none."""

    name: str
    version: str = ""
    start_s: float = 0.0
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    failure: str | None = None
    process: subprocess.Popen[str] | None = None
    log: Path = Path(os.devnull)

    def row(self, ours: Engine | None) -> dict[str, Any]:
        if self.failure is not None:
            return {"engine": self.name, "failure": self.failure}
        tokens = NUM_REQUESTS * OUTPUT
        row = {
            "engine": self.name,
            "version": self.version,
            "start_s": self.start_s,
            "seconds": self.seconds,
            "cpu_s": self.cpu_s,
            "tokens_per_s": {
                "median": tokens / median(self.seconds),
                "min": tokens / max(self.seconds),
                "max": tokens / min(self.seconds),
            },
        }
        if ours is not None and ours.seconds:
            same = sum(one == other for one, other in zip(self.answers, ours.answers, strict=True))
            row["pagesim_times_as_fast"] = {
                "median": median(self.seconds) / median(ours.seconds),
                "best": min(self.seconds) / min(ours.seconds),
                "by_cpu": min(self.cpu_s) / min(ours.cpu_s),
            }
            row["answers_like_pagesim"] = same
        return row


@contextmanager
def children(engines: list[Engine]) -> Iterator[None]:
    """At the end each is told that nothing more comes."""
    try:
        yield
    finally:
        for engine in engines:
            if engine.process is not None:
                pipe(engine.process.stdin).close()
                try:
                    engine.process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    engine.process.kill()


def start(engine: Engine, python: Path | PeerError, job: Path) -> None:
    """Load the model and serve the load once."""
    if isinstance(python, PeerError):
        raise python
    options = json.loads(job.read_text())
    own = {"PYTHONPATH": str(ROOT / "src")} if engine.name == "pagesim" else {"PYTHONPATH": ""}
    own |= {"OMP_NUM_THREADS": str(options["threads"]), "HF_HUB_OFFLINE": "1"}
    engine.log = job.with_name(f"{engine.name}.log")
    with engine.log.open("w") as errors:
        engine.process = subprocess.Popen(
            [python, CHILD, engine.name, job],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | own,
        )  # fmt: skip
    ready = answer(engine)
    engine.version, engine.start_s = ready["version"], ready["start_s"]


def run(engine: Engine) -> None:
    """Serve the load once more, and note how long it took."""
    assert engine.process is not None
    stdin = pipe(engine.process.stdin)
    stdin.write("again\n")
    stdin.flush()
    said = answer(engine)
    if [len(each) for each in said["answers"]] != [OUTPUT] * NUM_REQUESTS:
        raise PeerError(f"gave {[len(each) for each in said['answers']]} tokens; asked for: {OUTPUT} each")
    engine.answers = said["answers"]
    engine.seconds.append(said["seconds"])
    engine.cpu_s.append(said["cpu_s"])


def answer(engine: Engine) -> dict[str, Any]:
    assert engine.process is not None
    stdout = pipe(engine.process.stdout)
    if not select([stdout], [], [], PATIENCE_S)[0]:
        engine.process.kill()
        raise PeerError(f"gave no answer in {PATIENCE_S} s (its log: {engine.log})")
    line = stdout.readline()
    if not line:
        raise PeerError(f"ended: {last_line(engine.log.read_text(errors='replace'))} (all of it: {engine.log})")
    said: dict[str, Any] = json.loads(line)
    return said


def pipe(end: IO[str] | None) -> IO[str]:
    assert end is not None
    return end
