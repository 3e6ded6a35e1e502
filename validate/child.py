"""A piece of work in a process of its own, which may crash, hang, or be held to a limit, and what came back of it.

The child is started with `-P`: a folder of the caller's that is called like a library is not taken for it. What it
prints goes to stderr; its answer goes back in lines of JSON. Left out: more than one question to a child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Advance = Callable[[int], None]
MOST_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """`problem` None: the work was done, and `value` is what it returned. Otherwise why not, in one line.

    `kind`: the name of the exception, or None if the child ended without one; `missing`: the module that is not
    installed, if that was it.
    """

    value: Any
    problem: str | None = None
    kind: str | None = None
    missing: str | None = None


def in_child(
    module: str,
    question: Any,
    *,
    timeout_s: float,
    environment: Mapping[str, str | None] | None = None,
    advance: Advance = lambda count: None,
) -> Answer:
    """Run `module`, whose main calls `answer`, and give it `question`. `environment`: set so, or with None unset."""
    late = threading.Event()
    with _started(module, environment or {}) as child, _drained(child) as errors:

        def give_up() -> None:
            late.set()
            _end(child)

        timer = threading.Timer(timeout_s, give_up)
        timer.start()
        try:
            last = _converse(child, question, advance)
            child.wait()
        finally:
            timer.cancel()
            _end(child)
    if "value" in last:
        return Answer(last["value"])
    if "problem" in last:
        return Answer(None, last["problem"], last["kind"], last["missing"])
    said = next((line for line in reversed("".join(errors).splitlines()) if line.strip()), "")
    how = f"not done in {timeout_s:g} s" if late.is_set() else _ending(child.returncode)
    return Answer(None, one_line(f"{how}{f': {said.strip()}' if said else ''}"))


def answer(work: Callable[[Any, Advance], Any]) -> None:
    """The child's side: read the question, work, and send back what came of it. Any exception is told in a line."""
    question = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)

        def send(line: dict[str, Any]) -> None:
            print(json.dumps(line), file=out)

        try:
            send({"value": work(question, lambda count: send({"advance": count}))})
        except Exception as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            send({"problem": told(error), "kind": type(error).__name__, "missing": missing})


def told(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def one_line(text: str) -> str:
    """The first line that says something, cut if it never ends."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]} ..."


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Ours, changed, and with the folder that pagesim lies in where Python would not look for it by itself."""
    environment = {**os.environ, **{name: value for name, value in changes.items() if value is not None}}
    for name, value in changes.items():
        if value is None:
            environment.pop(name, None)
    folder = str(Path(__file__).absolute().parents[2])
    if folder not in (*site.getsitepackages(), site.getusersitepackages()):
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = folder if not before else f"{before}{os.pathsep}{folder}"
    return environment


def _started(module: str, environment: Mapping[str, str | None]) -> subprocess.Popen[str]:
    """With a process group of its own, so that what it starts can be ended with it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module], stdin=pipe, stdout=pipe, stderr=pipe, text=True,
        env=_environment(environment), start_new_session=True,
    )  # fmt: skip


def _end(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _converse(child: subprocess.Popen[str], question: Any, advance: Advance) -> dict[str, Any]:
    """The child's last word; empty if it never came to that."""
    assert child.stdin is not None and child.stdout is not None
    with contextlib.suppress(BrokenPipeError), child.stdin:
        json.dump(question, child.stdin)
    last: dict[str, Any] = {}
    for line in child.stdout:
        last = json.loads(line)
        advance(last.get("advance", 0))
    return last


@contextlib.contextmanager
def _drained(child: subprocess.Popen[str]) -> Iterator[list[str]]:
    """What the child writes to stderr, read as it comes, or it would stop at a full pipe."""
    lines: list[str] = []
    assert child.stderr is not None
    reader = threading.Thread(target=lines.extend, args=(child.stderr,), daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        reader.join()


def _ending(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"the process was ended by {name}"
