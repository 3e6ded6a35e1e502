"""Puts a trace on a server in real time: each request is sent when it is due, by a thread of its own.

Latencies count from when a request was due, so that a sender that is late hides nothing; how late it was is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagesim.validate.replay.prompts import Prompts
from pagesim.validate.server.errors import GoneError, NonsenseError, RefusedError
from pagesim.validate.server.experiment import ServerExperiment
from pagesim.validate.server.http import Server
from pagesim.validate.server.stream import Answer, stream
from pagesim.validate.server.watch import Watch

MOST_AT_ONCE = 512  # requests, and threads: more wait here, and are sent late


@dataclass(slots=True)
class Outcome:
    """What became of a request. Times are seconds from the start; `sent_s` None: it was never sent."""

    row: int
    due_s: float
    answer: Answer
    sent_s: float | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RealTime:
    """`began_s`: on `time.monotonic`. `broke_off`: why not everything was sent and answered, None if it was."""

    began_s: float
    outcomes: list[Outcome]
    highest: dict[str, float]
    readings: int
    broke_off: str | None


class Sender:
    """`body`: what is asked for a row, as the server takes it. Ends by itself after `timeout_s` seconds."""

    def __init__(
        self,
        server: Server,
        experiment: ServerExperiment,
        body: Callable[[int], dict[str, Any]],
        timeout_s: float,
        on_progress: Callable[[int], None] = lambda requests: None,
    ) -> None:
        self._server, self._body, self._timeout_s, self._on_progress = server, body, timeout_s, on_progress
        arrivals = enumerate(experiment.trace.arrival_s.tolist())
        self._outcomes = [Outcome(row, due_s, Answer()) for row, due_s in arrivals]
        self._seats = threading.Semaphore(MOST_AT_ONCE)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._broke_off: str | None = None
        self._bug: Exception | None = None
        self._began_s = 0.0

    def run(self) -> RealTime:
        """Send all, and wait for all answers."""
        watch = Watch(self._server, self._break_off)
        timer = threading.Timer(self._timeout_s, self._break_off, (f"--timeout {self._timeout_s:g} s are over",))
        timer.daemon = True
        threads: list[threading.Thread] = []
        self._began_s = time.monotonic()
        watch.start()
        timer.start()
        try:
            self._send(threads)
            for thread in threads:
                thread.join()
        except BaseException:
            self._break_off("interrupted")
            raise
        finally:
            timer.cancel()
            watch.stop()
        if self._bug is not None:
            raise self._bug
        return RealTime(self._began_s, self._outcomes, watch.highest, watch.readings, self._broke_off)

    def _send(self, threads: list[threading.Thread]) -> None:
        for outcome in self._outcomes:
            body = self._body(outcome.row)  # made before it is due
            wait_s = max(0.0, self._began_s + outcome.due_s - time.monotonic())
            if self._stopped.wait(wait_s) or not self._seat():
                return
            thread = threading.Thread(target=self._ask, args=(outcome, body), daemon=True)
            thread.start()
            threads.append(thread)

    def _seat(self) -> bool:
        while not self._seats.acquire(timeout=0.1):
            if self._stopped.is_set():
                return False
        return True

    def _ask(self, outcome: Outcome, body: dict[str, Any]) -> None:
        outcome.sent_s = time.monotonic() - self._began_s
        try:
            stream(self._server, body, outcome.answer)
        except (RefusedError, GoneError) as error:
            outcome.problem = str(error)
        except NonsenseError as error:
            outcome.problem = str(error)
            self._break_off(str(error))
        except Exception as error:  # our own bug: a thread must not keep it to itself
            self._bug = error
            self._break_off(str(error))
        finally:
            self._seats.release()
            self._on_progress(1)

    def _break_off(self, why: str) -> None:
        with self._lock:
            if self._broke_off is None:
                self._broke_off = why
        self._stopped.set()
        self._server.close()


def bodies(prompts: Prompts, model: str, nonce: str, *, with_priority: bool) -> Callable[[int], dict[str, Any]]:
    """Makes what is asked for a row: its tokens, and as many back as the trace says.

    `nonce` goes before every salt, so that nothing cached earlier is found; an adapter of the trace is a part of the
    salt too, for the same prompts share nothing under two adapters, and the server has none of them.
    """
    trace = prompts.trace

    def body(row: int) -> dict[str, Any]:
        salt = None if trace.cache_salt is None else trace.cache_salt[row]
        adapter = None if trace.adapter is None else trace.adapter[row]
        asked: dict[str, Any] = {
            "model": model,
            "prompt": prompts.of(row),
            "max_tokens": int(trace.output_tokens[row]),
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "cache_salt": ":".join([nonce, *("" if part is None else f"={part}" for part in (salt, adapter))]),
        }
        if with_priority and trace.priority is not None:
            asked["priority"] = int(trace.priority[row])
        return asked

    return body
