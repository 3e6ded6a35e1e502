"""The PagedAttention paper's comparison: three baselines with a buddy system, and paging, behind one queue.

Kwon et al., Efficient Memory Management for Large Language Model Serving with PagedAttention, SOSP 2023: section 6.1,
figures 2 and 13. Left out: that the engine of that time prefilled in steps of its own, its swapping, and what the host
does between steps, for which the roofline is slowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pagesim.sim.arrivals import Renewal
from pagesim.sim.catalog.devices import find_device
from pagesim.sim.catalog.models import find_model
from pagesim.sim.experiments.experiment import Run
from pagesim.sim.experiments.paper_lengths import (
    LONGEST_PAIR,
    LONGEST_PROMPT,
    SHORTEST,
    Shape,
    gamma_shape,
    lognormal_shape,
)
from pagesim.sim.length_pairs import IndependentLengths
from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.roofline import RooflineStep
from pagesim.sim.serving.shares import PoolShares, pool_shares
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Ints, Trace
from pagesim.sim.workload import Workload

MAX, POW2, ORACLE, PAGING = "Orca (Max)", "Orca (Pow2)", "Orca (Oracle)", "paging"
ORCA = "pagesim.sim.allocators.orca:"
ALLOCATORS = {MAX: "reservation", POW2: f"{ORCA}OrcaPow2", ORACLE: "buddy", PAGING: PAGED}
UNBOUNDED = f"{ORCA}OrcaPow2Unbounded"

KV_BYTES, BLOCK, CONTEXT = 12 * 2**30, 16, 2048
SLOT_BYTES = 2 * 40 * 5120 * 2  # K and V, layers, hidden size, half precision: the paper's 0.8 MB
CONFIG = ServingConfig(
    num_blocks=KV_BYTES // (BLOCK * SLOT_BYTES) + 1,  # the null block is none of the paper's
    block_size=BLOCK,
    token_budget=2560,  # this and the watermark: the defaults of the first releases of vLLM
    max_model_len=CONTEXT,
)
WATERMARK = 0.01

# Both from one figure each; what they were found on is a row with the standing "fitted".
SIGMA, GAMMA = 0.84, 1.25  # of lengths: the answers under Orca (Max), ShareGPT
SLOWER = 3.1  # than the data sheet: the batch of paging, Alpaca
LENGTHS, OTHER_LENGTHS = lognormal_shape(SIGMA), gamma_shape(GAMMA)

# To see what the differences hang on. Answers of at most 1,024 tokens need another spread for the same figure.
SHORT_TAIL, SHORT_TAIL_LONGEST = gamma_shape(0.48), 1024
SLOWER_SHAREGPT = 1.7

HOUR_S, WARM_UP_S = 3600, 600
OTHER_DRAWS = range(1, 5)  # of the requests; the one that is shown is 0


@dataclass(frozen=True, slots=True, eq=False)
class PaperLoad:
    """Requests of the paper: Poisson at `rate_per_s`, lengths by their means in tokens. `batch` by system, figure 13.

    `shares`, figure 2, by system: token states, reservation, internal, external and others; None: not published.
    """

    name: str
    rate_per_s: float
    prompt_mean: float
    output_mean: float
    batch: Mapping[str, float]
    shares: Mapping[str, tuple[float | None, ...]]

    def trace(
        self, prompt: Shape, output: Shape, longest_output: int = LONGEST_PAIR - SHORTEST, seed: int = 0
    ) -> Trace:
        """An hour of it. Prompts and answers are drawn apart, and pairs past the context left out."""
        prompts = prompt.with_mean(self.prompt_mean, LONGEST_PROMPT)
        outputs = output.with_mean(self.output_mean, longest_output)
        requests = round(self.rate_per_s * HOUR_S)
        workload = Workload(IndependentLengths(prompts, outputs), Renewal(1), self.rate_per_s, requests)
        drawn = workload.draw(np.random.SeedSequence(seed))
        return drawn.take(np.flatnonzero(drawn.total_tokens <= LONGEST_PAIR))


SHAREGPT = PaperLoad(
    "paper-sharegpt",
    2.0,
    161.31,
    337.99,
    {MAX: 7.00, POW2: 9.81, ORACLE: 13.62, PAGING: 30.42},
    {
        MAX: (0.204, 0.133, 0.573, 0.089),
        POW2: (0.268, 0.179, 0.136, 0.416),
        ORACLE: (0.382, 0.252, 0.0, 0.366),
        PAGING: (0.963, None, None, None),
    },
)
ALPACA = PaperLoad("paper-alpaca", 30.0, 19.31, 58.45, {MAX: 7.00, POW2: 43.24, ORACLE: 72.75, PAGING: 132.44}, {})


def data_sheet() -> RooflineStep:
    """OPT-13B on an A100 40 GB, as fast as can be."""
    return RooflineStep.of(find_device("a100-40gb"), find_model("opt-13b"))


def slowed(step_time: RooflineStep, times: float) -> RooflineStep:
    """The same, each step taking `times` as long."""
    return replace(
        step_time,
        bandwidth_bytes_per_s=step_time.bandwidth_bytes_per_s / times,
        flops_per_s=step_time.flops_per_s / times,
        launches_s=step_time.launches_s * times,
    )


def paper_machine() -> RooflineStep:
    """The one that the experiments run on."""
    return slowed(data_sheet(), SLOWER)


def system_run(trace: Trace, system: str, step_time: StepTime) -> Run:
    """One of ALLOCATORS in front of the paper's pool."""
    watermark = WATERMARK if system == PAGING else 0.0
    return Run(trace, replace(CONFIG, allocator=ALLOCATORS[system], watermark=watermark), step_time)


def paper_runs(load: PaperLoad, step_time: StepTime) -> dict[str, Run]:
    """Every system, by its name; then with one thing changed at a time, which the name says behind a comma."""
    trace, other = load.trace(LENGTHS, LENGTHS), load.trace(OTHER_LENGTHS, OTHER_LENGTHS)
    runs = {system: system_run(trace, system, step_time) for system in ALLOCATORS}
    runs |= {f"{system}, gamma lengths": system_run(other, system, step_time) for system in (POW2, ORACLE, PAGING)}
    runs |= {f"{system}, data sheet": system_run(trace, system, data_sheet()) for system in (POW2, ORACLE, PAGING)}
    runs[f"{POW2}, past the context"] = runs[POW2].with_config(allocator=UNBOUNDED)
    if load is SHAREGPT:
        runs |= _more_of_sharegpt(trace, step_time)
    return runs


def _more_of_sharegpt(trace: Trace, step_time: StepTime) -> dict[str, Run]:
    short = SHAREGPT.trace(LENGTHS, SHORT_TAIL, SHORT_TAIL_LONGEST)
    runs = {f"{system}, answers to 1,024": system_run(short, system, step_time) for system in (POW2, ORACLE)}
    slower = slowed(data_sheet(), SLOWER_SHAREGPT)
    runs[f"{PAGING}, {SLOWER_SHAREGPT:g} times the data sheet"] = system_run(trace, PAGING, slower)
    for seed in OTHER_DRAWS:
        drawn = SHAREGPT.trace(LENGTHS, LENGTHS, seed=seed)
        runs |= {f"{system}, draw {seed}": system_run(drawn, system, step_time) for system in (POW2, ORACLE)}
    return runs


def shares_of(log: ServingLog) -> PoolShares:
    """The paper's four kinds, from ten minutes after the start to the last arrival."""
    return pool_shares(log, asked_slots(log), WARM_UP_S, float(log.arrival_s[-1]))


def batch_by_steps(log: ServingLog) -> float:
    """Sequences in a step, over the steps of the same time, if prompts were computed in steps of their own.

    That is how the engine of the paper's time went about it; the steps here are taken apart after the run.
    """
    segments, start_s = log.segments, log.segments["start_s"]
    inside = (start_s >= WARM_UP_S) & (start_s + log.duration_s <= log.arrival_s[-1])
    steps, running, first = (column[inside] for column in (segments["steps"], segments["running"], log.first_steps))
    came = log.admissions["step"]
    came = came[(came >= first[0]) & (came < first[-1] + steps[-1])]
    return float((steps * running).sum() + len(came)) / float(steps.sum() + len(np.unique(came)))


def asked_slots(log: ServingLog) -> Ints | None:
    """Slots that each request of a log asks for, int64 [requests]; None with paging."""
    allocator, final = log.config.allocator, log.prompt_tokens + log.output_tokens
    if allocator == PAGED:
        return None
    if allocator == ALLOCATORS[MAX]:
        return np.full(len(final), CONTEXT)
    if allocator == ALLOCATORS[ORACLE]:
        return final
    rounded = np.left_shift(1, np.frexp(log.output_tokens - 1)[1])  # the exponent is the number of bits
    asked = log.prompt_tokens + rounded
    return asked if allocator == UNBOUNDED else np.minimum(asked, CONTEXT)
