"""The engine serves a trace in real time, and the simulator the same trace by a profile that was fitted beforehand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pagesim.engine.engine import Engine
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace
from pagesim.sim.workload import scaled_to_rate
from pagesim.validate.calibrate.calibration import Calibration
from pagesim.validate.calibrate.design import Load, Reach, loads
from pagesim.validate.calibrate.shape import BatchTime
from pagesim.validate.calibrate.source import from_engine, reach_of
from pagesim.validate.calibrate.timing import Timer
from pagesim.validate.load import Arrival, run_load
from pagesim.validate.realtime.figures import Figures
from pagesim.validate.realtime.knee import knee_rate_per_s, sequences_at_once
from pagesim.validate.realtime.result import Machine, Run, TimeComparison
from pagesim.validate.realtime.steps import StepTimes
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.prompts import Prompts
from pagesim.validate.replay.rules import engine_blocks, engine_config

ROOM = 1.5  # the calibration goes to so many times the sequences of a full batch
OnProgress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds, and how to let some pass. By default the one on the wall."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Bench:
    """An engine, its calibration, and the loads that tell how fast it is now. Torch has the threads it is to have."""

    def __init__(self, engine: Engine, timer: Timer, steps: StepTimes, clock: Clock) -> None:
        """`engine`'s clock is `clock.now_s`, its `on_step` `steps.note`, which passes them on to `timer`."""
        self._engine, self._timer, self._steps, self._clock = engine, timer, steps, clock
        self._probes: list[Load] = []
        self._probes_s = 1.0
        self.calibration: Calibration | None = None

    @classmethod
    def start(cls, experiment: Experiment, model: str, device: str, clock: Clock | None = None) -> Bench:
        """An engine under the experiment's rules. Raises EngineError."""
        clock, rules = clock or Clock(), experiment.config
        timer = Timer(clock.now_s)
        steps = StepTimes(timer, clock.now_s)
        config = engine_config(rules, model, device, num_blocks=engine_blocks(rules))
        return cls(Engine(config, clock=clock.now_s, on_step=steps.note), timer, steps, clock)

    @property
    def engine(self) -> Engine:
        """The engine."""
        return self._engine

    def reach(self, experiment: Experiment) -> Reach:
        """As far as the trace may take the engine."""
        config = experiment.config
        sequences = min(config.max_num_seqs, round(ROOM * sequences_at_once(served(experiment), config)))
        return reach_of(self._engine, sequences, self._engine.max_model_len)

    def calibrate(self, reach: Reach, repeats: int, advance: OnProgress = lambda loads: None) -> Calibration:
        """On loads that have nothing to do with any trace; done once."""
        self.calibration, _ = from_engine(self._engine, self._timer, reach, repeats, advance)
        self._probes = [load for load in loads(reach) if load.held_out]
        self._probes_s = sum(group.measured_s for group in self.calibration.groups if group.held_out)
        return self.calibration

    def slowness(self) -> float:
        """How long the held-out loads take now, over what they took in the calibration."""
        took_s = sum(seconds for load in self._probes for _, seconds in self._timer.serve(self._engine, load))
        return took_s / self._probes_s

    def compare(
        self, experiment: Experiment, at: Sequence[float], advance: OnProgress = lambda requests: None
    ) -> TimeComparison:
        """The trace at so many times the rate of the knee, each in turn. `calibrate` came first.

        Raises UsageError if all requests arrive at once, and MemoryBudgetError.
        """
        assert self.calibration is not None, "compared before it is calibrated"
        step_time, trace = self.calibration.step_time, served(experiment)
        knee = knee_rate_per_s(trace, experiment.config, step_time)
        slowness, runs = self.slowness(), []
        for load in at:
            scaled = scaled_to_rate(trace, load * knee)
            engine, cpu_share = self.in_real_time(Experiment(scaled, experiment.config, step_time), advance)
            steps_error = self._steps.modelled_s(step_time) / self._steps.measured_s - 1
            before, slowness = slowness, self.slowness()
            simulated = simulated_figures(scaled, experiment, step_time)
            machine = Machine(before, slowness, cpu_share)
            runs.append(Run(load, load * knee, engine, simulated, steps_error, machine))
        return TimeComparison(self.calibration, knee, len(trace), tuple(runs))

    def time_loads(self, loads: Sequence[Load]) -> list[BatchTime]:
        """Each step of loads of a calibration, once, as it is now."""
        return [
            BatchTime(shape, seconds, load.name, load.held_out)
            for load in loads
            for shape, seconds in self._timer.serve(self._engine, load)
        ]

    def in_real_time(
        self, experiment: Experiment, advance: OnProgress = lambda requests: None
    ) -> tuple[Figures, float]:
        """The engine's figures of a trace at its own times, and the processors that were busy while it had work."""
        arrivals = list(_arrivals(experiment, self._engine.model.config.vocab_size))
        busy_s = 0.0

        def sleep(seconds: float) -> None:
            nonlocal busy_s
            busy_s -= seconds
            self._clock.sleep(seconds)
            self._steps.resume()

        self._steps.begin()
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        log = run_load(self._engine, arrivals, advance, self._clock.now_s, sleep)
        self._steps.end()
        busy_s += time.monotonic() - began_s
        return Figures.of_engine(log), (time.process_time() - began_cpu_s) / max(busy_s, 1e-9)


def served(experiment: Experiment) -> Trace:
    """The requests that the engine can serve to their end."""
    trace = experiment.trace
    return trace.take(np.flatnonzero(trace.total_tokens <= experiment.config.max_model_len))


def check_rate(experiment: Experiment) -> None:
    """Raise UsageError if the arrivals have no rate to scale. To be asked before anything is measured."""
    trace = served(experiment)
    if trace.span_s == 0:
        raise UsageError(
            f"--time scales the rate of arrivals, and the {len(trace):,} requests that can be served have none: all "
            "arrive at once; accepted: requests that come one after another, or --time left out"
        )


def simulated_figures(trace: Trace, experiment: Experiment, step_time: StepTime) -> Figures:
    """The simulator's."""
    return Figures.of_simulator(serve(trace, experiment.config, step_time))


def _arrivals(experiment: Experiment, vocab_size: int) -> Iterator[Arrival]:
    samples = experiment.samples
    prompts = Prompts(samples, vocab_size)
    for rows in experiment.groups:
        row = rows[0]
        yield Arrival(
            float(samples.arrival_s[row]),
            prompts.of(row),
            int(samples.output_tokens[row]),
            salt=None if samples.cache_salt is None else samples.cache_salt[row],
            adapter=None if samples.adapter is None else samples.adapter[row],
            n=len(rows),
            fork=len(rows) > 1,
            priority=0 if samples.priority is None else int(samples.priority[row]),
        )
