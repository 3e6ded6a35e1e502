"""What a saved result says of what was run, whatever became of the requests: the traces, the pool, the versions."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from pagesim.sim.config import RunConfig
from pagesim.sim.source import Source
from pagesim.sim.trace import Trace

LIBRARIES = ("pagesim", "simpy", "numpy", "scipy")


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """The traces: `requests` and `sha256` of the first, and of each replication; `rate_per_s` None: its own times.

    `longest_tokens`: prompt and output of the longest request of all. `samples`: answers that the first asks for.
    `offered_load` and `mean_residence_s`: as in `offered.Offered`.
    """

    requests: int
    sha256: str
    longest_tokens: int
    samples: int
    replications: list[dict[str, int | float | str]]
    lengths: str
    rate_per_s: float | None
    offered_load: float | None
    mean_residence_s: float


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The pool; `reservations` of max_model_len fit into it."""

    tokens: int
    block_size: int
    num_blocks: int
    bytes_per_token: int
    reservations: int
    origin: str


def replication_facts(trace: Trace) -> dict[str, int | float | str]:
    """Of the trace of one replication."""
    return {"requests": len(trace), "sha256": trace.sha256(), "span_s": float(trace.arrival_s[-1])}


def trace_facts(found: Source, each: Sequence[dict[str, Any]], longest_tokens: int, samples: int) -> TraceFacts:
    """Of all replications of a run; `each` is of `replication_facts`."""
    return TraceFacts(
        each[0]["requests"], each[0]["sha256"], longest_tokens, samples, list(each), found.label, found.rate_per_s,
        found.offered, found.mean_residence_s,
    )  # fmt: skip


def pool_facts(config: RunConfig) -> PoolFacts:
    """Of the pool of a run."""
    pool = config.pool
    return PoolFacts(
        pool.tokens, pool.block_size, pool.num_blocks, pool.bytes_per_token, pool.tokens // config.max_model_len,
        pool.origin,
    )  # fmt: skip


def versions() -> dict[str, str]:
    """Of what computed a result."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    """Looked up once: it reads files."""
    return {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()}
