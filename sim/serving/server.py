"""Serving a trace from the first arrival to the last answer. SimPy owns the clock; one event for each stretch of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy
from simpy.events import NORMAL

from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.engine import Engine
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.pool import BlockPool, CountingPool
from pagesim.sim.serving.prefix_pool import PrefixPool
from pagesim.sim.serving.record import Record
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.running import Running
from pagesim.sim.serving.scheduler import Scheduler
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.serving.waiting import Waiting, WaitingByPriority
from pagesim.sim.trace import Trace

OnProgress = Callable[[int], None]
PROGRESS_STEP = 1000


def serve(
    trace: Trace,
    config: ServingConfig,
    step_time: StepTime,
    priority: Sequence[int] | None = None,
    keep_steps: bool = False,
    on_progress: OnProgress | None = None,
) -> ServingLog:
    """Serve every request of `trace` that can be served at all; the others are rejected on arrival.

    `priority`: one number for each request, the least is served first; it goes with the policy "priority". `keep_steps`:
    keep what is needed to tell the blocks in use at every single step. `on_progress` is told of every PROGRESS_STEP requests that finish.
    Raises UsageError if priorities and policy do not fit.
    """
    requests = Requests(trace, config, priority)
    record = Record.of(len(trace), keep_steps)
    running = Running(requests.last_pass, config.block_size)
    scheduler = Scheduler(config, requests, running, _waiting(requests, config), _pool(trace, config), record)
    engine = Engine(scheduler, step_time)
    _Clock(engine, on_progress).run()
    return ServingLog.of(trace, config, requests, record)


def _waiting(requests: Requests, config: ServingConfig) -> Waiting:
    if config.policy == "priority":
        priority = requests.priority or [0] * len(requests)
        return WaitingByPriority(requests.servable, requests.arrival_s, priority)
    return Waiting(requests.servable, requests.arrival_s)


def _pool(trace: Trace, config: ServingConfig) -> BlockPool:
    if config.prefix_caching:
        return PrefixPool(config.usable_blocks, config.block_size, HashChains(trace, config.block_size))
    return CountingPool(config.usable_blocks, config.block_size)


class _Tick(simpy.Event):
    """An event that is bound to happen: a simpy.Timeout without a value, used over and over."""

    _ok = True
    _value = None

    def __init__(self, callbacks: list[Callable[..., None]]) -> None:
        self.callbacks = callbacks


class _Clock:
    """Wakes the engine when it asked to be woken."""

    def __init__(self, engine: Engine, on_progress: OnProgress | None) -> None:
        self.env, self.engine, self.on_progress = simpy.Environment(), engine, on_progress
        self._told = 0

    def run(self) -> None:
        """Until nothing is left to do."""
        env, schedule = self.env, self.env.schedule
        stretches = self.engine.stretches()
        wake = stretches.send
        next(stretches)
        callbacks: list[Callable[..., None]] = []

        def at(tick: _Tick) -> None:
            try:
                schedule(tick, NORMAL, wake(env.now))
            except StopIteration:
                return
            tick.callbacks = callbacks

        callbacks.append(at)
        if self.on_progress is not None:
            callbacks.append(self._tell)
        schedule(_Tick(callbacks), NORMAL)
        env.run()

    def _tell(self, tick: _Tick) -> None:
        while self.on_progress is not None and self.engine.num_finished - self._told >= PROGRESS_STEP:
            self._told += PROGRESS_STEP
            self.on_progress(PROGRESS_STEP)
