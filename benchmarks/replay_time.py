"""How near the simulator's times come to the engine's, on three traces below and above the knee, in one run.

    python benchmarks/replay_time.py [--model random:tiny] [--requests 500] [--rounds 2] [--machine-time]

A model on the CPU (random:benchmarks/middle.json is larger than tiny), one thread, 512 usable blocks of 16. Every two
seconds of a trace its clock stands still while one load of the calibration, which has nothing to do with any trace, is
served by a second engine of the same model: so both see the same machine in the mean, however it changes meanwhile.
From their mean times the step-time model is fitted; with it the simulator serves each trace, and all figures below are
held out. The rates, half and twice that of the knee, follow from a first calibration. Wanted: throughput within 5%,
TTFT and TPOT p50 within 10%. Exit status 1 if one is not.

--machine-time: the clock goes by the pace of fixed pieces of work that are timed in between (`machine_time`), for a
machine whose own pace changes from second to second. What is said is then said of that clock.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.table import Table

from pagesim.commands.kernel import wide_console
from pagesim.sim.config import WorkloadConfig
from pagesim.sim.console import progress
from pagesim.sim.drawing import draw_at_rate
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.steptime import ConstantStep, LinearStep
from pagesim.sim.workload import scaled_to_rate
from pagesim.validate.calibrate.calibration import Calibration, calibrate
from pagesim.validate.calibrate.design import Load, Reach, loads
from pagesim.validate.calibrate.provenance import measured_on_engine
from pagesim.validate.calibrate.shape import BatchTime
from pagesim.validate.calibrate.threads import threads
from pagesim.validate.realtime.figures import Figures, errors
from pagesim.validate.realtime.knee import knee_rate_per_s
from pagesim.validate.realtime.run import Bench, Clock, simulated_figures
from pagesim.validate.replay.experiment import Experiment

RULES = ServingConfig(num_blocks=513, max_model_len=1024)
REACH = Reach(96, 1024, RULES.usable_tokens)
TRACES = {
    "mixed": WorkloadConfig(),  # lognormal, half of it prompt
    "long prompts, short answers": WorkloadConfig(prompt_lengths="lognormal:300:220", output_lengths="lognormal:40:30"),
    "short prompts, long answers, in bursts": WorkloadConfig(
        arrivals="gamma:3", prompt_lengths="uniform:20:200", output_lengths="uniform:50:250"
    ),
}
LOADS = (0.5, 2.0)
EVERY_S = 2.0
WANTED = {"output_tokens_per_s": 0.05, "ttft_s.p50": 0.10, "tpot_s.p50": 0.10}
Measured = dict[tuple[str, float], tuple[Experiment, list[Figures]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="random:tiny", help="of the engine, on the CPU [random:tiny]")
    parser.add_argument("--requests", type=int, default=500, help="of each trace [500]")
    parser.add_argument("--rounds", type=int, default=2, help="how often each trace is served at each load [2]")
    parser.add_argument(
        "--machine-time", action="store_true", help="the clock goes by the pace of fixed work timed in between"
    )
    said = parser.parse_args()
    calibration, measured = measure(said.model, clock(said.machine_time, said.model), said.requests, said.rounds)
    print(f"clock: {'the pace of probes' if said.machine_time else 'the wall'}; {calibration.measured_on}")
    print(f"calibration, {calibration.fitted.rows} batches fitted, held out {calibration.held_out.total:+.1%} in all")
    table, missed = Table("trace", "load", "", "engine", "simulator", "off by"), 0
    for (name, load), (made, runs) in measured.items():
        engine, simulator = pooled(runs), simulated_figures(made.trace, made, calibration.step_time)
        for figure, error in errors(simulator, engine).items():
            if figure in WANTED:
                too_far = error is None or abs(error) > WANTED[figure]
                missed += too_far
                values = (f"{side.values()[figure]:.4g}" for side in (engine, simulator))
                table.add_row(name, f"{load:g}", figure, *values, f"{error:+.1%}{' !' if too_far else ''}")
    wide_console().print(table)
    wanted = ", ".join(f"{figure} {within:.0%}" for figure, within in WANTED.items())
    print(f"{missed} of {len(measured) * len(WANTED)} are not within what is wanted (!): {wanted}")
    sys.exit(missed > 0)


class InBetween:
    """The calibration's loads, one after the other, on an engine of their own, and a clock that leaves them out."""

    def __init__(self, model: str, clock: Clock) -> None:
        self._bench = Bench.start(experiment(WorkloadConfig(), 1), model, "cpu", clock)
        self._clock = clock
        self._hidden_s, self._next_s = 0.0, math.inf
        self._loads = itertools.cycle(loads(REACH))
        self._times: dict[str, list[list[BatchTime]]] = {}

    @property
    def clock(self) -> Clock:
        """For the engine that serves the traces. Whoever looks at it when a load is due waits for that."""
        return Clock(self._now_s, self._clock.sleep)

    def begin(self) -> LinearStep:
        """Calibrate once, roughly. From now on a load is due every EVERY_S."""
        rough = self._bench.calibrate(REACH, 1)
        self._next_s = 0.0
        return rough.step_time

    def calibration(self) -> Calibration:
        """Fitted to the mean times of each batch: like what a run of many steps adds up. Each load is served once at
        the least.
        """
        for load in loads(REACH):
            if load.name not in self._times:
                self._serve(load)
        source = f"{min(map(len, self._times.values()))} to {max(map(len, self._times.values()))} repeats"
        return calibrate(list(self._means()), measured_on_engine(self._bench.engine), source)

    def _now_s(self) -> float:
        now_s = self._clock.now_s() - self._hidden_s
        if now_s > self._next_s:
            self._next_s = math.inf  # serving looks at the clock too
            self._serve(next(self._loads))
            self._hidden_s = self._clock.now_s() - now_s
            self._next_s = now_s + EVERY_S
        return now_s

    def _serve(self, load: Load) -> None:
        self._times.setdefault(load.name, []).append(self._bench.time_loads([load]))

    def _means(self) -> Iterator[BatchTime]:
        for repeats in self._times.values():
            for same in zip(*repeats, strict=True):
                assert len({each.shape for each in same}) == 1, "other batches than the time before"
                yield replace(same[0], seconds=float(np.mean([each.seconds for each in same])))


def measure(model: str, clock: Clock, num_requests: int, rounds: int) -> tuple[Calibration, Measured]:
    """Every trace at every load in each round, with the calibration's loads in between."""
    between = InBetween(model, clock)
    bench = Bench.start(experiment(WorkloadConfig(), num_requests), model, "cpu", between.clock)
    with threads(bench.engine, 1):
        rough = between.begin()
        measured: Measured = {
            (name, load): (at_load(experiment(workload, num_requests), load, rough), [])
            for name, workload in TRACES.items()
            for load in LOADS
        }
        with progress("traces served", rounds * len(measured)) as advance:
            for _ in range(rounds):
                for made, runs in measured.values():
                    runs.append(bench.in_real_time(made)[0])
                    advance(1)
    return between.calibration(), measured


def experiment(workload: WorkloadConfig, num_requests: int) -> Experiment:
    drawn = WorkloadConfig(
        workload.arrivals, prompt_lengths=workload.prompt_lengths, output_lengths=workload.output_lengths,
        num_requests=num_requests,
    )  # fmt: skip
    return Experiment(draw_at_rate(drawn, RULES.max_model_len, 3, 1.0, None), RULES, ConstantStep(1.0))


def at_load(made: Experiment, load: float, step_time: LinearStep) -> Experiment:
    rate_per_s = load * knee_rate_per_s(made.trace, RULES, step_time)
    return replace(made, trace=scaled_to_rate(made.trace, rate_per_s))


def pooled(runs: list[Figures]) -> Figures:
    """Several runs of one trace as one: the mean throughput, all requests' latencies."""
    return Figures(
        sum(run.span_s for run in runs),
        float(np.mean([run.output_tokens_per_s for run in runs])),
        *(np.concatenate([getattr(run, name) for run in runs]) for name in ("ttft_s", "tpot_s", "e2e_s")),
    )


def clock(machine_time: bool, model: str) -> Clock:
    if not machine_time:
        return Clock()
    from machine_time import MachineTime, Probe

    paced = MachineTime(Probe(model))
    return Clock(paced.now_s, paced.sleep)


if __name__ == "__main__":
    main()
