"""How near the simulator's times come to the engine's, on three traces below and above the knee, in one run.

    python benchmarks/replay_time.py [--model random:tiny] [--requests 500] [--rounds 2] [--machine-time]

A model on the CPU (random:benchmarks/middle.json is larger than tiny), one thread, 512 usable blocks of 16. The
calibration's loads, which have nothing to do with any trace, are served before, between and after the traces, so that
both see the same machine in the mean, however it changes meanwhile. From their mean times the step-time model is
fitted; with it the simulator serves each trace, and all figures below are held out. The rates, half and twice that of
the knee, follow from a first calibration. Wanted: throughput within 5%, TTFT and TPOT p50 within 10%. Exit status 1 if
one is not.

--machine-time: the clock goes by the pace of a fixed piece of work that is timed in between (`machine_time`), for a
machine whose own pace changes from second to second. What is said is then said of that clock.
"""

from __future__ import annotations

import argparse
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
from pagesim.validate.calibrate.design import Reach, loads
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
WANTED = {"output_tokens_per_s": 0.05, "ttft_s.p50": 0.10, "tpot_s.p50": 0.10}
Measured = dict[tuple[str, float], tuple[Experiment, list[Figures]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="random:tiny")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--machine-time", action="store_true")
    said = parser.parse_args()
    bench = Bench.start(
        experiment(WorkloadConfig(), said.requests), said.model, "cpu", clock(said.machine_time, said.model)
    )
    with threads(bench.engine, 1):
        calibration, measured = measure(bench, said.requests, said.rounds)
    print(f"clock: {'the pace of a probe' if said.machine_time else 'the wall'}; {calibration.measured_on}")
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
    print(f"{missed} of {len(measured) * len(WANTED)} are not within what is wanted")
    sys.exit(missed > 0)


def measure(bench: Bench, num_requests: int, rounds: int) -> tuple[Calibration, Measured]:
    """Every trace at every load in each round, and the calibration's loads before, between and after."""
    bench.calibrate(REACH, 1)
    rough = bench.calibration.step_time
    measured: Measured = {
        (name, load): (at_load(experiment(workload, num_requests), load, rough), [])
        for name, workload in TRACES.items()
        for load in LOADS
    }
    again = [bench.time_loads(loads(REACH))]
    with progress("traces served", rounds * len(measured)) as advance:
        for _ in range(rounds):
            for made, runs in measured.values():
                runs.append(bench.in_real_time(made)[0])
                again.append(bench.time_loads(loads(REACH)))
                advance(1)
    return calibrate(list(means(again)), measured_on_engine(bench.engine), f"{len(again)} repeats"), measured


def experiment(workload: WorkloadConfig, num_requests: int) -> Experiment:
    drawn = WorkloadConfig(
        workload.arrivals, prompt_lengths=workload.prompt_lengths, output_lengths=workload.output_lengths,
        num_requests=num_requests,
    )  # fmt: skip
    return Experiment(draw_at_rate(drawn, RULES.max_model_len, 3, 1.0, None), RULES, ConstantStep(1.0))


def at_load(made: Experiment, load: float, step_time: LinearStep) -> Experiment:
    rate_per_s = load * knee_rate_per_s(made.trace, RULES, step_time)
    return replace(made, trace=scaled_to_rate(made.trace, rate_per_s))


def means(repeats: list[list[BatchTime]]) -> Iterator[BatchTime]:
    """Of each batch the mean over the repeats: like what a run of many steps adds up."""
    for same in zip(*repeats, strict=True):
        assert len({each.shape for each in same}) == 1, "other batches than the time before"
        yield replace(same[0], seconds=float(np.mean([each.seconds for each in same])))


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
