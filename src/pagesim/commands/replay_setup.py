"""What `pagesim validate replay` replays: requests, rules and pool, of options or of a scenario, and the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagesim.commands import reading
from pagesim.sim.config import REFERENCE_STEP_TIME, PoolConfig, QueueConfig, RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.reading import ReadOptions

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine
    from pagesim.sim.serving.config import ServingConfig
    from pagesim.sim.trace import Trace
    from pagesim.validate.replay.experiment import Experiment

NUM_BLOCKS = 513


@dataclass(frozen=True, slots=True)
class Machine:
    """The model of the engine, and where it runs."""

    model: str
    device: str


@dataclass(frozen=True, slots=True)
class Pool:
    """How the pool was said, at most one way."""

    num_blocks: int | None
    kv_bytes: str | None
    memory: str | None

    def for_engine(self) -> dict[str, int | None]:
        """As an engine takes it, where that is to tell how many blocks there are; empty: they are told. UsageError."""
        from pagesim.sim.sizes import parse_bytes

        given = {"--num-blocks": self.num_blocks, "--kv-bytes": self.kv_bytes, "--memory": self.memory}
        said = [flag for flag, value in given.items() if value is not None]
        if len(said) > 1:
            raise UsageError(f"the pool is decided by {' and '.join(said)}; accepted: one of {', '.join(given)}")
        if self.kv_bytes is not None:
            return {"kv_bytes": parse_bytes(self.kv_bytes, "--kv-bytes")}
        return {} if self.memory is None else {"memory": parse_bytes(self.memory, "--memory")}


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """`source`: where the requests come from, in words. `engine` None: no model is to run."""

    source: str
    step_time: str
    experiment: Experiment
    engine: Engine | None


@dataclass(frozen=True, slots=True)
class Wish:
    """Requests as they were asked for. `drawn`: by the names of WorkloadConfig; None where nothing was said."""

    load: str | None
    trace: Path | None
    read: ReadOptions
    drawn: dict[str, Any]
    num_requests: int
    seed: int
    step_time: str | None

    def setup(self, rules: dict[str, Any], pool: Pool, machine: Machine | None) -> Setup:
        """`rules`: by the names of ServingConfig. Raises UsageError, TraceError and EngineError."""
        from pagesim.sim.serving.config import ServingConfig
        from pagesim.sim.serving.steptime import parse_step_time
        from pagesim.validate.replay.experiment import Experiment
        from pagesim.validate.replay.rules import check_comparable

        form = self.step_time or REFERENCE_STEP_TIME
        step_time = parse_step_time(form)
        own = pool.for_engine()
        if own and machine is None:
            raise UsageError("a pool in bytes without a model, whose tokens have a size; accepted: --num-blocks")
        wanted = ServingConfig(num_blocks=NUM_BLOCKS if pool.num_blocks is None else pool.num_blocks, **rules)
        check_comparable(wanted)
        if self.trace is None:
            reading.refuse_unread(self.read)
        given = None if self.trace is None else self._read(self.trace)
        wanted, engine = _start(wanted, machine, own)
        trace, words = self._requests(wanted, form, given)
        return Setup(words, form, _offered(Experiment(trace, wanted, step_time)), engine)

    def _read(self, path: Path) -> Trace:
        said = [name for name, value in self.drawn.items() if value != getattr(WorkloadConfig(), name)]
        if said:
            flag = "--" + said[0].removeprefix("num_").replace("_", "-")
            raise UsageError(f"--trace and {flag} given; accepted: one of the two")
        return reading.read_with_progress(path, self.read)[0]

    def _requests(self, rules: ServingConfig, form: str, given: Trace | None) -> tuple[Trace, str]:
        from pagesim.sim.source import source

        drawn = dict(self.drawn)
        if given is None and drawn["num_requests"] is None:
            drawn["num_requests"] = self.num_requests
        config = RunConfig(
            load=self.load,
            trace=None if self.trace is None else str(self.trace),
            reading=self.read,
            workload=WorkloadConfig(**drawn),
            pool=PoolConfig(tokens=rules.num_blocks * rules.block_size, block_size=rules.block_size),
            max_model_len=rules.max_model_len,
            allocators=(rules.allocator,),
            on_full="queue",
            seed=self.seed,
            num_runs=1,
            queue=QueueConfig(rules, form),
        )
        found = source(config, given)
        (trace,) = found.traces()
        load = "at its own times" if self.load is None else f"at load {self.load}"
        rate = "" if found.rate_per_s is None else f", {found.rate_per_s:.4g} requests/s"
        who = "requests drawn" if self.trace is None else f"requests of {self.trace.name}"
        return trace, f"{len(trace):,} {who} {load}{rate}; {_pool_words(rules)}; step time {form}"


def of_scenario(name: str, machine: Machine | None) -> Setup:
    """An experiment by name, its first run, or a recording of vLLM's scheduler. Raises UsageError and TraceError."""
    from pagesim.sim.experiments.catalogue import EXPERIMENTS, experiment
    from pagesim.sim.serving.scenario import read_scenario
    from pagesim.sim.serving.steptime import ConstantStep
    from pagesim.validate.replay.experiment import Experiment

    if name in EXPERIMENTS:
        run = next(iter(experiment(name).runs.values()))
        found, form = Experiment(run.trace, run.config, run.step_time), "the experiment's"
    elif Path(name).is_file():
        recording = read_scenario(Path(name))
        found, form = Experiment(recording.trace, recording.config, ConstantStep(1.0), recording.ids), "constant:1"
    else:
        raise UsageError(f"--scenario {name}; accepted: {', '.join(EXPERIMENTS)}, or the file of a recording")
    rules, engine = _start(_offered(found).config, machine, {})
    source = f"{len(found.samples):,} requests of {Path(name).name}; {_pool_words(rules)}; step time {form}"
    return Setup(source, form, replace(found, config=rules), engine)


def _offered(experiment: Experiment) -> Experiment:
    """The same. Raises UsageError if it has nobody to serve."""
    experiment.check_offered()
    return experiment


def _start(
    rules: ServingConfig, machine: Machine | None, pool: dict[str, int | None]
) -> tuple[ServingConfig, Engine | None]:
    """The engine, and the rules over the blocks that it really has."""
    if machine is None:
        return rules, None
    from pagesim.engine.engine import Engine
    from pagesim.validate.replay.rules import engine_config, over_engine_blocks

    engine = Engine(engine_config(rules, machine.model, machine.device, **pool), audit=True)
    return over_engine_blocks(rules, engine.account.num_blocks), engine


def _pool_words(rules: ServingConfig) -> str:
    return f"{rules.allocator}, {rules.usable_blocks:,} usable blocks of {rules.block_size}"
