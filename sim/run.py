"""`pagesim run`: several allocators, one trace, several replications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagesim.sim.allocators import Pool, allocator_class
from pagesim.sim.config import RunConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.facts import TraceFacts, replication_facts, trace_facts
from pagesim.sim.measures import Measures, measure
from pagesim.sim.offered import residence_of
from pagesim.sim.placement import PlacementLog, place_all
from pagesim.sim.source import source
from pagesim.sim.trace import Trace

OnPlaced = Callable[[str, PlacementLog], None]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All that `pagesim run` computed: `measures[name][r]` is allocator `name` in replication r."""

    measures: dict[str, list[Measures]]
    trace: TraceFacts


def run(
    config: RunConfig,
    trace: Trace | None = None,
    check: bool = False,
    on_progress: Callable[[int], None] | None = None,
    on_log: OnPlaced | None = None,
) -> Runs:
    """Put every allocator of `config` through the same traces.

    `trace` is what was read from `config.trace`. `check` asserts the account of the pool as it goes. `on_progress` is
    told how many requests have been put through one allocator since the last call. `on_log` gets every log, with the
    name of the allocator. Raises UsageError; what an allocator raises passes through, with a note that names it.
    """
    found = source(config, trace)
    pool = Pool(config.pool.tokens, config.max_model_len, config.pool.block_size)
    make = {name: allocator_class(name) for name in config.allocators}
    measures: dict[str, list[Measures]] = {name: [] for name in config.allocators}
    facts, longest_tokens, samples = [], 0, 0
    for drawn in found.traces():
        residence_s = residence_of(config, found.moments).of(drawn)
        facts.append(replication_facts(drawn))
        longest_tokens = max(longest_tokens, int(drawn.total_tokens.max()))
        samples = samples or drawn.num_samples
        for name in config.allocators:
            try:
                log = place_all(drawn, residence_s, make[name](pool), config.growth, check, on_progress)
            except SystemExit as error:  # it would end pagesim without a word
                said = f"allocator '{name}' ended the program (SystemExit: {error})"
                raise UsageError(f"{said}; accepted: one that returns") from error
            except Exception as error:  # someone's own allocator, or a broken invariant: its author needs the traceback
                error.add_note(f"raised by allocator '{name}' in replication {len(measures[name]) + 1}")
                raise
            if on_log is not None:
                on_log(name, log)
            measures[name].append(
                measure(drawn, residence_s, log, pool.capacity_tokens, pool.max_model_len, config.growth, config.warmup)
            )
    return Runs(measures, trace_facts(found, facts, longest_tokens, samples))


def expected_requests(config: RunConfig, trace: Trace | None) -> int:
    """How many requests `run` will put through allocators, in all: what `on_progress` adds up to."""
    return source(config, trace).num_requests * config.num_runs * len(config.allocators)
