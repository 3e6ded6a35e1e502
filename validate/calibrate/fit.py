"""The fit: coefficients of the step-time model, none negative, and what they leave unexplained.

Steps are weighed by 1 / fitted time: a step of twice the time may be off by sqrt(2) times as much. Then the fitted
times add up to the measured ones. With relative errors, as a fit on a few published figures has them, noise would make
every coefficient too small: a time that came out short by chance would count more than one that came out long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.steptime import Knot, LinearStep
from pagesim.sim.trace import Floats
from pagesim.validate.calibrate.shape import BatchTime, Shape

KNOTS = (2, 8, 32, 128, 512)  # tokens of a step; a second token costs more than most
BESIDE_KNOT = 5  # rows
BEHIND_KNOT = 1.25  # of its tokens: rows just behind the last one would make any slope of what comes then
ROUNDS = 50  # of weighing anew; a handful is enough
SETTLED = 1e-10
LEAST = 1e-6  # of the mean time: so small a fitted time would weigh as much as all others


def fit_step_time(times: Sequence[BatchTime], split: bool = True) -> LinearStep:
    """The coefficients. `split`: contexts have a price of their own, so has a step with a prefill, and tokens have a
    curve as far as the rows tell it; else a context costs twice a pair, every token the same, and that is all.

    Raises UsageError if the rows do not tell the kinds of work apart, or leave a step without a base time.
    """
    measured_s = np.array([time.seconds for time in times])
    knots = _knots([time.shape.tokens for time in times]) if split else ()
    work = np.array([_columns(time.shape, split, knots) for time in times], np.float64)
    if knots and not _tells_all(work):
        knots, work = (), np.array([_columns(time.shape, split) for time in times], np.float64)
    if not len(times) or not _tells_all(work):
        raise UsageError(
            f"{_rows(times)} to fit on, which cannot tell steps, tokens, prefill pairs, decode contexts, sequences "
            "and steps with a prefill apart; accepted: batches with and without prefills, of several sizes and lengths"
        )
    size = np.linalg.norm(work, axis=0)
    found = (_weighed(work / size, measured_s) / size).tolist()
    base_s, rises_s, prices_s = found[0], found[1 : 1 + len(knots)], found[1 + len(knots) :]
    if not base_s > 0:
        raise UsageError(
            f"{_rows(times)} to fit on, which leave nothing for a step by itself, whatever it computes; accepted: "
            "times of small batches too, and less noise, by a quieter machine or more repeats"
        )
    step_time = LinearStep(base_s, *prices_s)
    curve = map(Knot, knots, (step_time.per_token_s + np.cumsum(rises_s)).tolist())
    return replace(step_time, curve=tuple(curve) or None)


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
        1 - left / around if np.ptp(measured_s) else None,
        float(modelled_s.sum() / measured_s.sum() - 1),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
    )


def _rows(times: Sequence[BatchTime]) -> str:
    return "1 row" if len(times) == 1 else f"{len(times)} rows"


def _knots(tokens: Sequence[int]) -> tuple[int, ...]:
    """Those of KNOTS that have rows between themselves and the one before, and well behind them."""
    kept, before = [], 1
    for knot in KNOTS:
        up_to = sum(before <= each < knot for each in tokens)
        behind = sum(each >= BEHIND_KNOT * knot for each in tokens)
        if min(up_to, behind) >= BESIDE_KNOT:
            kept.append(knot)
            before = knot
    return tuple(kept)


def _columns(shape: Shape, split: bool, knots: Sequence[int] = ()) -> tuple[float, ...]:
    """A step, how far it goes from each knot to the next, then in the order of LinearStep's coefficients."""
    tokens: list[float] = [shape.tokens]
    if knots:
        ends = (1, *knots)
        tokens = [min(max((shape.tokens - low) / (high - low), 0), 1) for low, high in pairwise(ends)]
        tokens.append(1 + max(shape.tokens - ends[-1], 0))
    if split:
        return 1, *tokens, shape.prefill_pairs, shape.sequences, shape.contexts, int(bool(shape.chunks))
    return 1, *tokens, shape.prefill_pairs + 2 * shape.contexts, shape.sequences


def _tells_all(work: Floats) -> bool:
    """Whether no column follows from the others."""
    size = np.linalg.norm(work, axis=0)
    return bool(size.all()) and np.linalg.matrix_rank(work / size) == work.shape[1]


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
