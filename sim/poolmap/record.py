"""Records the first replication of a run, once it is known where something is to be seen in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pagesim.sim.allocators import Pool, allocator_class, in_order
from pagesim.sim.config import RunConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.offered import residence_of
from pagesim.sim.placement import PlacementLog
from pagesim.sim.poolmap.page import PoolMap
from pagesim.sim.poolmap.placed import record_placement
from pagesim.sim.poolmap.recording import NoMapError, Recording
from pagesim.sim.poolmap.served import record_serving
from pagesim.sim.poolmap.window import DEFAULT_FRAMES, Window, placement_window, serving_window
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.source import source
from pagesim.sim.trace import Trace

MOST_FRAMES = 20_000


@dataclass(frozen=True, slots=True)
class MapOptions:
    """`frames`: moments that are recorded, 0 for none. `from_s`: where they begin; None: around what is worth seeing.

    Raises UsageError on numbers that make no sense.
    """

    frames: int = DEFAULT_FRAMES
    from_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.frames <= MOST_FRAMES:
            raise UsageError(f"--map-frames {self.frames}; accepted: 0 to {MOST_FRAMES}")
        if self.from_s is not None and not 0 <= self.from_s < float("inf"):
            raise UsageError(f"--map-from {self.from_s:g}; accepted: 0 or more seconds")


@dataclass(slots=True)
class FirstLogs:
    """The log of each allocator in the first replication; `keep` is told of all."""

    placed: dict[str, PlacementLog] = field(default_factory=dict)
    served: dict[str, ServingLog] = field(default_factory=dict)

    def keep_placed(self, name: str, log: PlacementLog) -> None:
        """Of a run in which nothing waits."""
        self.placed.setdefault(name, log)

    def keep_served(self, name: str, log: ServingLog) -> None:
        """Of a run in which requests wait."""
        self.served.setdefault(name, log)


def record(config: RunConfig, trace: Trace | None, logs: FirstLogs, options: MapOptions) -> PoolMap:
    """The pool under every allocator inside one window of time. `trace`: what was read from `config.trace`."""
    found = source(config, trace)
    drawn = next(found.traces())
    if config.queue is not None:
        window = serving_window(logs.served, options.frames, options.from_s)
        return of_served(drawn, logs.served, window, config.num_runs, config.pool.bytes_per_token)
    window = placement_window(drawn, logs.placed, options.frames, options.from_s)
    residence_s = residence_of(config, found.moments).of(drawn)
    pool = Pool(config.pool.tokens, config.max_model_len, config.pool.block_size)
    recordings: list[Recording] = []
    missing: dict[str, str] = {}
    for name in in_order(logs.placed):
        try:
            allocator = allocator_class(name)(pool)
            recordings.append(record_placement(name, drawn, residence_s, allocator, config.growth, window))
        except NoMapError as error:
            missing[name] = str(error)
    return PoolMap(recordings, missing, window, config.num_runs, config.pool.block_size, config.pool.bytes_per_token)


def of_served(
    trace: Trace, logs: Mapping[str, ServingLog], window: Window, of_many: int, bytes_per_token: int | None
) -> PoolMap:
    """The same from logs of serving `trace`, by name."""
    recordings: list[Recording] = []
    missing: dict[str, str] = {}
    for name in in_order(logs):
        try:
            recordings.append(record_serving(name, trace, logs[name], window))
        except NoMapError as error:
            missing[name] = str(error)
    block_size = next(iter(logs.values())).config.block_size
    return PoolMap(recordings, missing, window, of_many, block_size, bytes_per_token)
