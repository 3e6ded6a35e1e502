"""How many requests are simulated in a second of one core, beside a bare SimPy loop and beside other simulators.

    python benchmarks/sim_peers.py                                  the 10,000 requests, ours and the bare loop
    python benchmarks/sim_peers.py --peers                          and sched-sim, installed into a scratch environment
    python benchmarks/sim_peers.py --million                        and a million requests
    python benchmarks/sim_peers.py --mooncake conversation_trace.jsonl   and a real trace, with prefix caching

10,000 requests, Poisson 8/s, prompts uniform on 200 to 500, outputs on 150 to 250, no caching. "Constant" is 20 ms a
step, about what an A100 takes for a decode of a 13B model; "linear" is a form that grows with the work. Every figure is
computed, not the run alone. Each number is the best of several repeats, in processor seconds of this process, next to
what a SimPy process that does nothing but wait costs in the same run: on a machine that others use, only the ratio
means anything.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import simpy

from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.figures import figures
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steptime import ConstantStep, LinearStep, StepTime
from pagesim.sim.trace import Trace

BARE_EVENTS = 50_000
CONFIG = ServingConfig(num_blocks=27_000, max_model_len=2048)
STEP_TIMES: dict[str, StepTime] = {
    "constant": ConstantStep(0.02),
    "linear": LinearStep(base_s=8e-3, per_token_s=36e-6, per_pair_s=0.13e-9, per_sequence_s=17e-6),
}
SCHED_SIM = """
import json, sys, time
from sched_sim.core.event_engine import Simulator
from sched_sim.hardware.presets import get_hardware_profile
from sched_sim.schedulers.factory import create_scheduler
from sched_sim.workloads.trace_loader import load_trace_file

requests = load_trace_file(sys.argv[1])
card = get_hardware_profile("a100")
simulator = Simulator(card, create_scheduler("chunked", card, token_budget=2048, max_batch_size=256))
simulator.submit_workload(requests)
start = time.process_time()
simulator.run()
print(time.process_time() - start)
"""


def workload(count: int) -> Trace:
    rng = np.random.default_rng(1)
    return Trace(np.cumsum(rng.exponential(1 / 8, count)), rng.integers(200, 501, count), rng.integers(150, 251, count))


def cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def bare_loop() -> None:
    env = simpy.Environment()

    def wait():
        for _ in range(BARE_EVENTS):
            yield env.timeout(1.0)

    env.process(wait())
    env.run()


def peak_mib() -> float:
    """Most memory this process has held."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def ours(name: str, trace: Trace, config: ServingConfig, step_time: StepTime, repeats: int) -> None:
    bare, whole, alone = [], [], []
    for _ in range(repeats):
        bare.append(cpu_s(bare_loop) / BARE_EVENTS)
        alone.append(cpu_s(lambda: serve(trace, config, step_time)))
        whole.append(cpu_s(lambda: figures(serve(trace, config, step_time))))
    log = serve(trace, config, step_time)
    each = min(whole) / len(trace)
    print(
        f"{name}: {len(trace):,} requests in {min(whole):.3f} s of processor = {1 / each:,.0f}/s with every figure "
        f"({len(trace) / min(alone):,.0f}/s without), {each / min(bare):.1f} waits of a bare SimPy process each "
        f"({min(bare) * 1e6:.2f} us), {len(log.segments) / len(trace):.2f} leaps a request over {log.num_steps:,} "
        f"steps, peak {peak_mib():,.0f} MiB"
    )


def sched_sim(trace: Trace) -> None:
    columns = zip(trace.arrival_s.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    rows = [{"timestamp": t, "prompt_tokens": prompt, "output_tokens": output} for t, prompt, output in columns]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        try:
            subprocess.run([python, "-m", "pip", "install", "-q", "sched-sim"], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            print("sched-sim: cannot be installed here; left out")
            return
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(rows))
        run = subprocess.run([python, "-c", SCHED_SIM, path], capture_output=True, text=True)
    if run.returncode:
        print(f"sched-sim: failed; left out ({run.stderr.strip().splitlines()[-1]})")
        return
    seconds = float(run.stdout)
    print(f"sched-sim: {len(trace):,} requests in {seconds:.1f} s of processor = {len(trace) / seconds:,.0f}/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--mooncake", type=Path)
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, SimPy {simpy.__version__}")
    trace = workload(10_000)
    for name, step_time in STEP_TIMES.items():
        ours(name, trace, CONFIG, step_time, options.repeats)
    if options.peers:
        sched_sim(trace)
    if options.mooncake:
        from pagesim.sim.formats import read_trace

        for budget in (8192, 2048):
            config = ServingConfig(token_budget=budget, max_model_len=131_072, prefix_caching=True)
            ours(f"mooncake, budget {budget:,}", read_trace(options.mooncake)[0], config, STEP_TIMES["constant"], 2)
    if options.million:
        ours("constant", workload(1_000_000), CONFIG, STEP_TIMES["constant"], 1)


if __name__ == "__main__":
    main()
