"""Where points are run: on the local cores, or on a cluster that is there already. Outcomes come as they are finished.

A worker that dies takes what it was running with it, and nothing else: that is run again. What kills its worker when it
runs alone is told as a failure.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import Protocol

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from pagesim.sim.errors import UsageError
from pagesim.sim.sweep.point import Outcome


class Job(Protocol):
    """Something to run, known by its key: a point of a sweep, or a search. It travels to a worker and back.

    `requests`: how much work it is.
    """

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def requests(self) -> int: ...  # noqa: D102

    def run(self) -> Outcome:
        """What came of it. It raises nothing."""
        ...

    def lost(self, why: str) -> Outcome:
        """What is told of it if it never comes back."""
        ...


Finished = tuple[Job, Outcome]
Workers = Callable[[Iterable[Job]], Generator[Finished, None, None]]
LOOK_S = 0.5  # how often a worker looks whether it is still wanted
AHEAD = 2  # points handed out for each worker: it need not wait for the next
DIED = "the worker died while it ran this alone: killed, or out of memory"


def local(jobs: int | None) -> Workers:
    """So many processes, or as many as there are cores; with 1, this one. Raises UsageError on fewer."""
    count = joblib.cpu_count() if jobs is None else jobs
    if count < 1:
        raise UsageError(f"--jobs {jobs}; accepted: 1 or more")
    return lambda points: _local(points, count)


def run_and_name(point: Job) -> Finished:
    """A point and what came of it: they do not come back in the order in which they went."""
    return point, point.run()


def _local(points: Iterable[Job], jobs: int) -> Generator[Finished, None, None]:
    coming = iter(points)
    while True:
        out: dict[str, Job] = {}
        try:
            for point, outcome in _parallel(jobs, _handed_out(coming, out)):
                del out[point.key]
                yield point, outcome
            return
        except TerminatedWorkerError:
            for point in out.values():
                yield _alone(point)


def _handed_out(coming: Iterator[Job], out: dict[str, Job]) -> Iterator[Job]:
    for point in coming:
        out[point.key] = point
        yield point


def _alone(point: Job) -> Finished:
    """In a process of its own, so that this one survives it."""
    try:
        (finished,) = _parallel(2, [point])
        return finished
    except TerminatedWorkerError:
        return point, point.lost(DIED)


def _parallel(jobs: int, points: Iterable[Job]) -> Iterator[Finished]:
    parallel = joblib.Parallel(
        n_jobs=jobs,
        return_as="generator_unordered",
        batch_size=1,
        pre_dispatch=AHEAD * jobs,
        backend="loky",
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    with _deaf_to_ctrl_c():
        finished: Iterator[Finished] = parallel(joblib.delayed(run_and_name)(point) for point in points)
    return finished


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """For the hundredths of a second in which workers are started: they inherit it, and do not die half imported."""
    if current_thread() is not main_thread():  # which no Ctrl-C reaches
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with(driver: int) -> None:
    """First of all in each worker: it ends when the process that started it is gone, and at no Ctrl-C of its own.

    Left to itself it would wait for more, and a terminal's Ctrl-C goes to all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_wait_for_end, args=(driver,), daemon=True).start()


def _wait_for_end(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(LOOK_S)
    os._exit(1)
