"""The fit: coefficients of the step-time model, none negative, and what they leave unexplained.

Steps are weighed by 1 / fitted time: a step of twice the time may be off by sqrt(2) times as much. Then the fitted
times add up to the measured ones. With relative errors, as a fit on a few published figures has them, noise would make
every coefficient too small: a time that came out short by chance would count more than one that came out long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.steptime import LinearStep
from pagesim.sim.trace import Floats
from pagesim.validate.calibrate.shape import BatchTime, Shape

ROUNDS = 50  # of weighing anew; a handful is enough
SETTLED = 1e-10
LEAST = 1e-6  # of the mean time: so small a fitted time would weigh as much as all others


def fit_step_time(times: Sequence[BatchTime], split: bool = True) -> LinearStep:
    """The coefficients. `split`: contexts have a price of their own, and so has a step with a prefill; else a context
    costs twice a pair, and that is all.

    Raises UsageError if the rows do not tell the kinds of work apart, or leave a step without a base time.
    """
    measured_s = np.array([time.seconds for time in times])
    kinds = len(_columns(Shape(1, 1), split))
    work = np.array([_columns(time.shape, split) for time in times], np.float64).reshape(len(times), kinds)
    size = np.linalg.norm(work, axis=0)
    if not len(times) or not size.all() or np.linalg.matrix_rank(work / size) < work.shape[1]:
        raise UsageError(
            f"{len(times)} rows to fit on, which do not tell steps, tokens, prefill pairs, decode contexts, sequences "
            "and steps with a prefill apart; accepted: batches with and without prefills, of several sizes and lengths"
        )
    base_s, *others = (_weighed(work / size, measured_s) / size).tolist()
    if not base_s > 0:
        raise UsageError(
            f"{len(times)} rows to fit on, which leave nothing for a step by itself, whatever it computes; accepted: "
            "times of small batches too, and less noise, by a quieter machine or more repeats"
        )
    return LinearStep(base_s, *others)


@dataclass(frozen=True, slots=True)
class Residuals:
    """How far a model is from rows. `r2`: 1 - sum of squares left / around the mean; None where all times are equal.

    `total`: modelled time of all rows over the measured, less 1. `median_error`, `p90_error`: of
    |modelled / measured - 1|, row by row.
    """

    rows: int
    r2: float | None
    total: float
    median_error: float
    p90_error: float


def residuals(times: Sequence[BatchTime], step_time: LinearStep) -> Residuals:
    """Of at least one row."""
    measured_s = np.array([time.seconds for time in times])
    modelled_s = np.array([time.shape.seconds(step_time) for time in times])
    around = float(((measured_s - measured_s.mean()) ** 2).sum())
    left = float(((modelled_s - measured_s) ** 2).sum())
    errors = np.abs(modelled_s / measured_s - 1)
    return Residuals(
        len(times),
        1 - left / around if around else None,
        float(modelled_s.sum() / measured_s.sum() - 1),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
    )


def _columns(shape: Shape, split: bool) -> tuple[int, ...]:
    """In the order of LinearStep's coefficients."""
    if split:
        return 1, shape.tokens, shape.prefill_pairs, shape.sequences, shape.contexts, int(bool(shape.chunks))
    return 1, shape.tokens, shape.prefill_pairs + 2 * shape.contexts, shape.sequences


def _weighed(work: Floats, measured_s: Floats) -> Floats:
    from scipy.optimize import nnls

    fitted_s = measured_s
    for _ in range(ROUNDS):
        weight = 1 / np.sqrt(fitted_s)
        found, _ = nnls(work * weight[:, None], measured_s * weight)
        before, fitted_s = fitted_s, np.maximum(work @ found, LEAST * measured_s.mean())
        if np.allclose(before, fitted_s, rtol=SETTLED, atol=0):
            break
    coefficients: Floats = found
    return coefficients
