"""Times in words, for terminal and page alike. What was fitted is called so, and the rest held out."""

from __future__ import annotations

from pagesim.validate.calibrate.fit import Residuals
from pagesim.validate.realtime.figures import LATENCIES, QUANTILES
from pagesim.validate.realtime.result import Run, TimeComparison

NONE = "-"
UNLIKE = 0.1  # so much slower or faster, a machine is told apart from the one that was calibrated
NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}


def table(time: TimeComparison) -> list[list[str]]:
    """For each load the engine's figures, the simulator's, and how far off these are; the first line is the head."""
    rows = [["", "engine", "simulator", "off by"]]
    for run in time.runs:
        rows.append([f"{run.where}, load {run.load:g}", "", "", ""])
        rows.append(_row("  output tokens/s", "output_tokens_per_s", run, "{:,.0f}", 1))
        for name in LATENCIES:
            rows += [_row(f"  {NAMES[name]} {q}, ms", f"{name}.{q}", run, "{:,.4g}", 1e3) for q in QUANTILES]
        rows.append(["  the engine's own steps", "", "", f"{run.steps_error:+.1%}"])
    return rows


def sentences(time: TimeComparison) -> list[str]:
    """How the simulator came by its step times, where the knee is, and how steady the machine was."""
    calibration = time.calibration
    said = [
        f"In real time on {calibration.measured_on}. The simulator's step times were fitted on loads of their own, "
        f"none of which is this trace: its figures here are held out. Fit: {_residuals(calibration.fitted)}; "
        f"loads held out: {_residuals(calibration.held_out)}.",
        f"The knee is at {time.knee_per_s:.4g} requests/s by the fitted step times; {time.requests:,} requests, served "
        f"at {', '.join(f'{run.load:g}' for run in time.runs)} times that.",
    ]
    if calibration.noise is not None:
        said.append(f"Noise: {calibration.noise.words} {_machine(time.runs)}")
    return said


def _row(label: str, name: str, run: Run, form: str, scale: float) -> list[str]:
    values = (run.engine.values()[name], run.simulator.values()[name])
    error = run.errors[name]
    shown = [NONE if value is None else form.format(scale * value) for value in values]
    return [label, *shown, NONE if error is None else f"{error:+.1%}"]


def _residuals(found: Residuals) -> str:
    r2 = "no R^2" if found.r2 is None else f"R^2 {found.r2:.3f}"
    return f"{r2}, {found.total:+.1%} in all, a step off by {found.median_error:.1%} in the median"


def _machine(runs: tuple[Run, ...]) -> str:
    slowness = [runs[0].machine.slowness_before, *(run.machine.slowness_after for run in runs)]
    busy = ", ".join(f"{run.machine.cpu_share:.2f}" for run in runs)
    said = (
        f"Around the runs the calibration's held-out loads took {', '.join(f'{each:.2f}' for each in slowness)} times "
        f"what they took in it; {busy} processors were busy."
    )
    if max(abs(each - 1) for each in slowness) > UNLIKE:
        said += f" More than {UNLIKE:.0%} from 1: this was not the machine that was calibrated, and the errors show it."
    return said
