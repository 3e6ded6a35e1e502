"""Points on a Ray cluster that somebody else has started, through its backend for joblib.

That backend gives results when all are done, so points go there in groups, a few for each worker: what is lost with
this process is one group.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Generator, Iterable
from itertools import islice

import joblib

from pagesim.sim.errors import UsageError
from pagesim.sim.sweep.workers import Finished, Job, Workers, run_and_name

TIMEOUT_S = 10
GROUP = 4  # points for each worker


def ray_cluster(address: str) -> Workers:
    """The workers of the cluster at `address`, or with "auto" of the one that runs here. Raises UsageError."""
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise UsageError("--ray needs Ray; accepted: with pip install ray") from error
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"--ray {address}: no cluster answers ({why}); accepted: its address, or auto") from error
    register_ray()
    return _run


def _knock(address: str) -> None:
    """Ray itself waits for minutes for one that is not there. Raises OSError."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), TIMEOUT_S).close()


def _run(points: Iterable[Job]) -> Generator[Finished, None, None]:
    coming = iter(points)
    with joblib.parallel_config(backend="ray", n_jobs=-1):
        parallel = joblib.Parallel(batch_size=1)
        while group := list(islice(coming, GROUP * joblib.effective_n_jobs(-1))):
            yield from parallel(joblib.delayed(run_and_name)(point) for point in group)
