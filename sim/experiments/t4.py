"""The fit of the reference profile: which of the note's figures it uses, and which it leaves to be compared with."""

from __future__ import annotations

from collections.abc import Sequence

from pagesim.sim.experiments.cold_warm import ASSUMED, COLD_S, WARM_S, cold_s, cold_warm_run, warm_s
from pagesim.sim.experiments.experiment import makespan_s
from pagesim.sim.experiments.fit import Measurement, fit_profile
from pagesim.sim.experiments.profile import FORM, REFERENCE, SCHEMA, HeldOut, Profile
from pagesim.sim.experiments.row import Row, Standing
from pagesim.sim.experiments.starved import ANSWER, LENGTHS, REQUESTS, UNSTARVED_TOKENS_PER_S, unstarved_run
from pagesim.sim.experiments.work import work_of
from pagesim.sim.serving.steptime import ConstantStep

MEASURED_ON = "Tesla T4, vLLM 0.29.0, PyTorch 2.13, CUDA 13, Qwen2.5-0.5B-Instruct in half precision, blocks of 16"
ANY_STEP = ConstantStep(1.0)  # the work does not depend on it


def t4_measurements() -> list[Measurement]:
    """Four figures of the note and the work in each: four equations for four coefficients."""
    unstarved_s = REQUESTS * ANSWER / UNSTARVED_TOKENS_PER_S
    runs = {length: cold_warm_run(length, ANY_STEP) for length in COLD_S}
    return [
        Measurement("cold_warm", "cold, 2,048 tokens", COLD_S[2048], work_of(runs[2048], cold_s)),
        Measurement("cold_warm", "cold, 4,096 tokens", COLD_S[4096], work_of(runs[4096], cold_s)),
        Measurement("cold_warm", "warm, 128 tokens", WARM_S[128], work_of(runs[128], warm_s)),
        Measurement("unstarved", "makespan", unstarved_s, work_of(unstarved_run(ANY_STEP), makespan_s)),
    ]


def t4_profile(rows: Sequence[Row]) -> Profile:
    """The profile, fitted now. `rows`: of all experiments under it; those that took no part in the fit are kept."""
    measurements = t4_measurements()
    held_out = [
        row for row in rows if row.standing in (Standing.HELD_OUT, Standing.NOT_EXPLAINED) and row.unit in TIMED
    ]
    return Profile(
        SCHEMA,
        REFERENCE,
        MEASURED_ON,
        FORM,
        fit_profile(measurements),
        tuple(measurements),
        tuple(
            HeldOut(r.figure, r.what, r.unit, tuple(map(float, r.published)), float(r.ours), r.standing.value)
            for r in held_out
        ),
        (ASSUMED, LENGTHS),
    )


TIMED = ("s", "tokens/s")
