"""The experiments by name: the note's, on the machine that the note is about, and the PagedAttention paper's."""

from __future__ import annotations

from collections.abc import Callable

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.cold_warm import cold_warm
from pagesim.sim.experiments.experiment import Experiment
from pagesim.sim.experiments.fit import fit_profile
from pagesim.sim.experiments.n8 import n8
from pagesim.sim.experiments.paper import paper_machine
from pagesim.sim.experiments.paper_rows import paper_alpaca, paper_sharegpt
from pagesim.sim.experiments.profile import Profile, reference_profile
from pagesim.sim.experiments.quarter_pool import quarter_pool
from pagesim.sim.experiments.row import Row
from pagesim.sim.experiments.salts import salts
from pagesim.sim.experiments.shared_prefix import shared_prefix
from pagesim.sim.experiments.starved import starved, starved_cached, unstarved
from pagesim.sim.experiments.t4 import t4_measurements, t4_profile
from pagesim.sim.experiments.thrash import thrash
from pagesim.sim.serving.steptime import StepTime

Make = Callable[[StepTime], Experiment]

NOTE: dict[str, Make] = {
    "starved": starved,
    "unstarved": unstarved,
    "starved-cached": starved_cached,
    "quarter-pool": quarter_pool,
    "shared-prefix": shared_prefix,
    "cold-warm": cold_warm,
    "n8": n8,
    "salts": salts,
    "thrash": thrash,
}
PAPER: dict[str, Make] = {"paper-sharegpt": paper_sharegpt, "paper-alpaca": paper_alpaca}
EXPERIMENTS = NOTE | PAPER


def experiment(name: str, step_time: StepTime | None = None) -> Experiment:
    """An experiment by name, by default on the machine it was measured on. Raises UsageError on an unknown name."""
    if name not in EXPERIMENTS:
        raise UsageError(f"experiment '{name}'; accepted: {', '.join(EXPERIMENTS)}")
    if step_time is None:
        step_time = paper_machine() if name in PAPER else reference_profile().coefficients
    return EXPERIMENTS[name](step_time)


def run_experiment(name: str, step_time: StepTime | None = None) -> list[Row]:
    """The rows of an experiment. Raises UsageError on an unknown name."""
    return experiment(name, step_time).run()


def refitted_profile() -> Profile:
    """The reference profile, fitted again from the note's figures, with the figures that were held out."""
    step_time = fit_profile(t4_measurements())
    return t4_profile([row for name in NOTE for row in run_experiment(name, step_time)])
