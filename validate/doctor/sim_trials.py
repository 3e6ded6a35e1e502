"""The trials that need no torch: the simulator, its pages and traces, and what works beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagesim.sim.config import RunConfig
    from pagesim.sim.result import RunResult
    from pagesim.sim.trace import Trace
    from pagesim.validate.replay.experiment import Experiment
    from pagesim.validate.replay.machine import Machine

REQUESTS = 60


def simulator() -> str:
    """A small run of the main experiment, its account checked at every event."""
    result = _run()
    return f"{REQUESTS} requests through {len(result.allocators)} allocators, every slot accounted for"


def report() -> str:
    """The page of such a run."""
    from pagesim.sim.gallery import panels
    from pagesim.sim.report import write_report
    from pagesim.sim.run_table import shown

    result = _run()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write_report(result, shown(result), panels(result), page, "pagesim doctor")
        return f"a page of {page.stat().st_size // 2**10:,} KiB"


def traces() -> str:
    """A drawn trace, written and read in both of our own formats."""
    from pagesim.sim.formats import read_trace
    from pagesim.sim.own_format import write_trace
    from pagesim.sim.reading import ReadOptions

    trace = _trace()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.jsonl.gz", "trace.parquet"):
            write_trace(trace, Path(folder) / name)
            again, _ = read_trace(Path(folder) / name, ReadOptions())
            assert again.sha256() == trace.sha256(), f"{name} does not hold what was written"
    return f"{len(trace)} requests written and read, JSON Lines and Parquet"


def schedulers() -> str:
    """A small replay of the engine's scheduler beside the simulator's."""
    from pagesim.validate.replay.machine import scheduler_alone

    return _replayed(scheduler_alone)


def images() -> str:
    """A picture of a small run, drawn by the browser that is there."""
    from pagesim.sim.gallery import pictures
    from pagesim.sim.picture_file import write_picture

    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "picture.png"
        write_picture(pictures(_run())[0], image)
        return f"an image of {image.stat().st_size // 2**10:,} KiB"


def cluster() -> str:
    """A point of a sweep on a Dask worker, inside this process, beside the same point without one."""
    from distributed import LocalCluster

    from pagesim.sim.sweep.dask_workers import dask_cluster
    from pagesim.sim.sweep.point import Point

    point = Point("doctor", _config(), {})
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as workers:
        ((_, outcome),) = dask_cluster(workers.scheduler_address)([point])
    assert outcome["rows"] and outcome == point.run(), f"the worker gave {outcome['errors'] or 'other figures'}"
    return "a Dask worker gives a point of a sweep as it is here"


def vllm() -> str:
    """A small replay of vLLM's scheduler, without a model, beside the simulator's."""
    from pagesim.validate.vllm.made import check_importable
    from pagesim.validate.vllm.scheduling import vllm_machine
    from pagesim.validate.vllm.versions import installed_version

    version = installed_version()
    check_importable()
    return f"vLLM {version}: {_replayed(vllm_machine)}"


def _run() -> RunResult:
    from pagesim.sim.result import RunResult
    from pagesim.sim.run import run

    config = _config()
    return RunResult.of(config, run(config, check=True))


def _config() -> RunConfig:
    from pagesim.sim.config import RunConfig, WorkloadConfig

    return RunConfig(load="high", workload=WorkloadConfig(num_requests=REQUESTS), max_model_len=1024, num_runs=1)


def _trace() -> Trace:
    from pagesim.sim.source import source

    (trace,) = source(_config(), None).traces()
    return trace


def _replayed(make: Callable[[Experiment], Machine]) -> str:
    from pagesim.sim.serving.config import ServingConfig
    from pagesim.sim.serving.steptime import ConstantStep
    from pagesim.validate.replay.experiment import Experiment
    from pagesim.validate.replay.logical import replay_logically

    rules = ServingConfig(num_blocks=65, max_model_len=1024)
    experiment = Experiment(_trace(), rules, ConstantStep(0.01))
    found = replay_logically(experiment, make_machine=make)
    assert found.agrees, f"the two schedulers differ: {found.findings}"
    return f"the two schedulers agree in {found.steps_that_agree} steps"
