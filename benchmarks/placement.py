"""How fast the placement experiment is, against a naive script in the same run.

    python benchmarks/placement.py [--requests 100000]

Ours: `--load high`, three allocators, one replication, real addresses, the full account. The naive script: paging as a
counter through SimPy timeouts, first-fit over a plain list of holes; no account, no reservation. Seconds are of CPU.
"""

from __future__ import annotations

import argparse
import resource
import time
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
import simpy

from pagesim.sim.config import RunConfig, WorkloadConfig
from pagesim.sim.drawing import Drawn
from pagesim.sim.run import run
from pagesim.sim.trace import Trace

POOL_TOKENS, BLOCK = 929_024, 16


class CountedBlocks:
    """The naive pager."""

    def __init__(self) -> None:
        self.free = POOL_TOKENS // BLOCK

    def take(self, tokens: int) -> int | None:
        blocks = -(-tokens // BLOCK)
        if blocks > self.free:
            return None
        self.free -= blocks
        return blocks

    def give(self, blocks: int, tokens: int) -> None:
        self.free += blocks


class ListedHoles:
    """Naive first fit: look at every hole in order of address."""

    def __init__(self) -> None:
        self.starts, self.sizes = [0], [POOL_TOKENS]

    def take(self, tokens: int) -> int | None:
        for k, size in enumerate(self.sizes):
            if size >= tokens:
                start = self.starts[k]
                if size == tokens:
                    del self.starts[k], self.sizes[k]
                else:
                    self.starts[k] += tokens
                    self.sizes[k] -= tokens
                return start
        return None

    def give(self, start: int, tokens: int) -> None:
        k = bisect_left(self.starts, start)
        self.starts.insert(k, start)
        self.sizes.insert(k, tokens)
        if k + 1 < len(self.starts) and start + tokens == self.starts[k + 1]:
            self.sizes[k] += self.sizes[k + 1]
            del self.starts[k + 1], self.sizes[k + 1]
        if k and self.starts[k - 1] + self.sizes[k - 1] == start:
            self.sizes[k - 1] += self.sizes[k]
            del self.starts[k], self.sizes[k]


def naive(trace: Trace, residence_s: np.ndarray, pool: CountedBlocks | ListedHoles) -> int:
    """Refusals; two SimPy timeouts for each request and nothing else."""
    env = simpy.Environment()
    tokens, stays, times = trace.total_tokens.tolist(), residence_s.tolist(), trace.arrival_s.tolist()
    refused = 0

    def arrive(event: simpy.Event) -> None:
        nonlocal refused
        owner = event.value
        what = pool.take(tokens[owner])
        if what is None:
            refused += 1
        else:
            after(stays[owner], (what, tokens[owner]), depart)
        if owner + 1 < len(times):
            after(times[owner + 1] - env.now, owner + 1, arrive)

    def depart(event: simpy.Event) -> None:
        pool.give(*event.value)

    def after(delay: float, value: object, callback: Callable[[simpy.Event], None]) -> None:
        event = env.timeout(delay, value)
        event.callbacks.append(callback)

    after(times[0], 0, arrive)
    env.run()
    return refused


def cpu_s(work: Callable[[], object]) -> tuple[float, object]:
    """Seconds of CPU, and what came of it."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    requests = parser.parse_args().requests
    config = RunConfig(load="high", num_runs=1, workload=WorkloadConfig(num_requests=requests))
    drawn = Drawn(config)
    trace = next(drawn.traces())
    residence_s = drawn.residence.of(trace)

    ours, runs = cpu_s(lambda: run(config))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    paged, paged_refused = cpu_s(lambda: naive(trace, residence_s, CountedBlocks()))
    first_fit, first_fit_refused = cpu_s(lambda: naive(trace, residence_s, ListedHoles()))
    assert runs.measures["paged"][0].refused == paged_refused  # type: ignore[attr-defined]
    assert runs.measures["exact-fit"][0].refused == first_fit_refused  # type: ignore[attr-defined]
    print(f"{requests:,} requests")
    print(f"pagesim, three allocators with the account: {ours:.2f} s, peak {peak_mib:,.0f} MiB")
    print(f"naive pager: {paged:.2f} s; naive first fit: {first_fit:.2f} s; the same refusals as ours")
    print(f"pagesim / (naive pager + naive first fit) = {ours / (paged + first_fit):.2f}")


if __name__ == "__main__":
    main()
