"""Serving a trace from the first arrival to the last answer. SimPy owns the clock: an event for each leap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import simpy
from simpy.events import NORMAL

from pagesim.sim.allocators import AnyAllocator, Pool, allocator_class
from pagesim.sim.allocators.exact_fit import ExactFit
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.audit import Audit
from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.contiguous import ContiguousPool
from pagesim.sim.serving.engine import Engine
from pagesim.sim.serving.eviction import EvictionQueue, RandomQueue, RankedQueue
from pagesim.sim.serving.fine_pool import FinePool
from pagesim.sim.serving.forking_pool import ForkingPool
from pagesim.sim.serving.host import Host, SwappingStep
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.pool import BlockPool, CountingPool
from pagesim.sim.serving.prefix_pool import PrefixPool
from pagesim.sim.serving.ranking import FirstIn, FutureUse, Ranking
from pagesim.sim.serving.record import Record
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.running import Running
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.scheduler import Scheduler
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.serving.waiting import Waiting, WaitingByPriority
from pagesim.sim.serving.whatifs import what_ifs
from pagesim.sim.trace import Trace

OnProgress = Callable[[int], None]
PROGRESS_STEP = 1000
LEAST_TICKS = 8  # of the clock, in a step: then no two steps begin at one time


def serve(
    trace: Trace,
    config: ServingConfig,
    step_time: StepTime,
    priority: Sequence[int] | None = None,
    on_progress: OnProgress | None = None,
    check: bool = False,
) -> ServingLog:
    """Serve every request of `trace` that can be served at all; the others are rejected on arrival.

    Each of the `n` samples of a prompt is a request of its own, or a fork of the first (`config.fork`); the log has a
    row for each in either case.

    `priority`: one number for each request, in place of the trace's, the least is served first; for the policy
    "priority".
    `on_progress` is told of each PROGRESS_STEP requests that finish. `check`: assert the account after every stretch,
    at a cost for each block of the pool; raises AssertionError where it does not add up. Raises UsageError if there is
    not one priority for each request, or if a step is so short that the clock cannot tell when the next one begins.
    """
    _check_clock(trace, step_time)
    n = np.ones(len(trace), np.int64) if trace.n is None else trace.n
    trace = independent_samples(trace)
    allocator = None if config.allocator == PAGED else _allocator(config)
    longest = config.max_model_len if allocator is None else allocator.largest_request_tokens
    if priority is None and trace.priority is not None:
        priority = trace.priority.tolist()
    requests = Requests(trace, config, priority, longest)
    record = Record.of(len(trace))
    running = Running(requests.last_pass, config.block_size if allocator is None else None)
    host = Host(config, running) if config.preempt == "swap" else None
    forks = None
    if config.fork == "cow":
        requests.refuse_groups(n, min(config.max_num_seqs, config.token_budget))
        forks = ForkingPool(config.usable_blocks, config.block_size, requests, running, n)
    pool: BlockPool
    if allocator is not None:
        pool = ContiguousPool(allocator, requests.last_pass if isinstance(allocator, ExactFit) else requests.final)
    else:
        pool = forks or _block_pool(trace, config, requests, running)
    scheduler = Scheduler(config, requests, running, _waiting(requests, config, forks), pool, record, host, forks)
    engine = Engine(scheduler, step_time if host is None else SwappingStep(step_time, host))
    _Clock(engine, on_progress, Audit(scheduler) if check else None).run()
    return ServingLog.of(trace, config, requests, record, what_ifs(scheduler))


def _check_clock(trace: Trace, step_time: StepTime) -> None:
    last_s = float(trace.arrival_s[-1]) if len(trace) else 0.0
    least_s, tick_s = step_time.seconds(1, 1, 0, 1), float(np.spacing(last_s))
    if least_s < LEAST_TICKS * tick_s:
        raise UsageError(
            f"steps of {least_s:g} s, when the last request arrives at {last_s:g} s: times there are {tick_s:.2g} s "
            "apart; accepted: longer steps, or arrivals that begin near 0 (--start zero)"
        )


def _waiting(requests: Requests, config: ServingConfig, forks: ForkingPool | None) -> Waiting:
    rows = requests.servable
    if forks is not None:  # the first of a group stands for all
        heads = set(forks.heads)
        rows = [row for row in rows if row in heads]
    if config.policy == "priority":
        priority = requests.priority or [0] * len(requests)
        return WaitingByPriority(rows, requests.arrival_s, priority)
    return Waiting(rows, requests.arrival_s)


def _block_pool(trace: Trace, config: ServingConfig, requests: Requests, running: Running) -> BlockPool:
    usable, size = config.usable_blocks, config.block_size
    if not config.prefix_caching:
        return CountingPool(usable, size)
    chains = HashChains(trace, size)
    queue, ranking = _eviction(config, requests, running, chains)
    if config.prefix_match_unit and trace.hash_ids is not None:
        return FinePool((usable, size), config.prefix_match_unit, trace, chains, requests, running, queue, ranking)
    return PrefixPool(usable, size, chains, queue, ranking)


def _eviction(
    config: ServingConfig, requests: Requests, running: Running, chains: HashChains
) -> tuple[EvictionQueue | None, Ranking | None]:
    if config.evict == "lru":
        return None, None
    if config.evict == "random":
        return RandomQueue(config.usable_blocks, config.evict_seed), None
    queue = RankedQueue(config.usable_blocks)
    if config.evict == "fifo":
        return queue, FirstIn(queue, running, config.block_size)
    return queue, FutureUse(queue, chains, requests, config.block_size)


def _allocator(config: ServingConfig) -> AnyAllocator:
    pool = Pool(config.usable_tokens, config.max_model_len, config.block_size)
    return allocator_class(config.allocator)(pool)


class _Tick(simpy.Event):
    """An event that is bound to happen: a simpy.Timeout without a value, used over and over."""

    _ok = True
    _value = None

    def __init__(self, callbacks: list[Callable[..., None]]) -> None:
        self.callbacks = callbacks


class _Clock:
    """Wakes the engine when it asked to be woken."""

    def __init__(self, engine: Engine, on_progress: OnProgress | None, audit: Audit | None) -> None:
        self.env, self.engine, self.on_progress, self.audit = simpy.Environment(), engine, on_progress, audit
        self._told = 0

    def run(self) -> None:
        """Until nothing is left to do."""
        env, schedule = self.env, self.env.schedule
        stretches = self.engine.stretches()
        wake = stretches.send if self.audit is None else _audited(stretches.send, self.audit)
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


def _audited(wake: Callable[[float], float], audit: Audit) -> Callable[[float], float]:
    def audited(now: float) -> float:
        wait = wake(now)
        audit.check()
        return wait

    return audited
