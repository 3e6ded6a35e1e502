"""Points on the workers of a Dask scheduler that somebody else has started.

Not through joblib's backend for Dask: that waits for ever for a point that the scheduler has given up on. A worker that
is lost costs what it was running, which the scheduler gives to another; what has killed one worker after the other
(distributed.scheduler.allowed-failures, 3) comes back as a failure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any

from pagesim import __version__
from pagesim.sim.errors import UsageError
from pagesim.sim.sweep.workers import AHEAD, Finished, Job, Workers

TIMEOUT_S = 10
DIED = "every worker died that ran this, or something beside it: killed, or out of memory"


def dask_cluster(address: str) -> Workers:
    """The workers of the scheduler at `address`. Raises UsageError, when the first point is asked for, if it is not
    there, or they cannot run points.
    """
    return lambda points: _run(points, address)


def _run(points: Iterable[Job], address: str) -> Generator[Finished, None, None]:
    coming = iter(points)
    with _client(address) as client:
        from distributed import as_completed

        _check_workers(client, address)
        out = {_submitted(client, point): point for point in islice(coming, _places(client))}
        finished = as_completed(out, loop=client.loop, raise_errors=False)
        for future in finished:
            yield _finished(future, out.pop(future), address)
            for point in islice(coming, max(0, _places(client) - len(out))):  # workers come and go
                new = _submitted(client, point)
                out[new] = point
                finished.add(new)


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--cluster needs Dask; accepted: with pip install 'pagesim[cluster]'") from error
    try:
        return Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        raise UsageError(f"--cluster {address}: no Dask scheduler answers ({error}); accepted: its address") from error


def _places(client: Any) -> int:
    """How many points are handed out at a time."""
    return AHEAD * max(1, int(sum(client.ncores().values())))


def _submitted(client: Any, point: Job) -> Any:
    return client.submit(_outcome, point, key=f"pagesim-{point.key}", pure=False)


def _outcome(point: Job) -> Any:
    return point.run()


def _finished(future: Any, point: Job, address: str) -> Finished:
    if future.status == "finished":
        return point, future.result()
    if future.status == "error":
        return point, point.lost(_why(future.exception()))
    raise UsageError(f"--cluster {address}: the scheduler is gone; accepted: the same command when it is back")


def _why(error: BaseException) -> str:
    """Of a point that came to nothing: it raises nothing itself."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    return DIED if kind == "KilledWorker" else f"{kind}: {text}"


def _check_workers(client: Any, address: str) -> None:
    """Before an hour of work: somebody is there, and has this version."""
    try:
        versions = client.run(_version)
    except Exception as error:  # whatever a worker that has no pagesim makes of it
        why = " ".join(str(error).split())
        raise UsageError(f"--cluster {address}: a worker cannot run pagesim ({why}); accepted: it on each") from error
    if not versions:
        raise UsageError(f"--cluster {address}: no worker is there; accepted: one or more")
    for worker, version in versions.items():
        if version != __version__:
            raise UsageError(f"{worker} has pagesim {version}; accepted: {__version__}, as here")


def _version() -> str:
    from pagesim import __version__ as version

    return version
