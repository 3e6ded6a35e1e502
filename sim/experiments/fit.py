"""Fitting the coefficients of a step-time profile on measured times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.work import Work
from pagesim.sim.serving.steptime import LinearStep


@dataclass(frozen=True, slots=True)
class Measurement:
    """A time that was measured, and the work that was done in it. `figure` and `what` say which it is."""

    figure: str
    what: str
    measured_s: float
    work: Work


def fit_profile(measurements: Sequence[Measurement]) -> LinearStep:
    """The coefficients, none negative, with the least sum of squares of relative errors.

    Four measurements of unlike work are met exactly, if that takes no negative coefficient.
    Raises UsageError if the measurements do not determine four coefficients, or leave a step without a base time.
    """
    from scipy.optimize import nnls

    work = np.array([[m.work.steps, m.work.tokens, m.work.pairs, m.work.sequences] for m in measurements], np.float64)
    relative = work.reshape(-1, 4) / np.array([[m.measured_s] for m in measurements]).reshape(-1, 1)
    size = np.linalg.norm(relative, axis=0)
    if not size.all() or np.linalg.matrix_rank(relative / size) < 4:
        raise UsageError(
            f"{len(measurements)} measurements that do not tell steps, tokens, pairs and sequences apart; "
            "accepted: at least 4 of unlike work"
        )
    scaled, _ = nnls(relative / size, np.ones(len(measurements)))
    return LinearStep(*(scaled / size).tolist())
