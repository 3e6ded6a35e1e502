"""A replay in words, for terminal and page alike: the table, what it comes to, and the first divergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagesim.validate.replay.comparison import Divergence
from pagesim.validate.replay.log import ReplayLog, ReplayStep
from pagesim.validate.replay.logical import Logical
from pagesim.validate.replay.physical import Physical
from pagesim.validate.replay.result import ReplayResult
from pagesim.validate.replay.state import State

SHOWN_RUNNING = 12
NONE = "-"
LEGEND = (
    "Both sides were told the same arrivals and the same step times, on a virtual clock; every column of every step is "
    "compared exactly. used: slots that hold a token; reserved: owned, will be filled; internal: owned, never filled; "
    "with a model they are read off a pool that was filled with NaN."
)


def table(result: ReplayResult) -> list[list[str]]:
    """What was compared, the simulator's, the engine's, and whether they agree; the first line is the head."""
    rows = [["", "simulator", "engine", "agrees"], *schedule(result.logical, "scheduler alone")]
    if result.physical is not None:
        rows += schedule(result.physical.logical, f"with {result.physical.model}")
        rows += _pool(result.physical)
    return rows


def verdict(result: ReplayResult) -> str:
    """One sentence."""
    logical, physical = result.logical, result.physical
    requests = f"{result.experiment.offered:,} requests"
    if not result.agrees:
        where, part = ("the schedules", logical) if not logical.agrees else ("the engine with its model", _of(physical))
        return f"They differ: {where}; {part.steps_that_agree:,} steps from the start agree."
    sentence = f"They agree in every one of {logical.steps_that_agree:,} steps over {requests}"
    if physical is not None:
        sentence += f", with the model too, and in all slots of the pool in {len(physical.samples):,} steps"
    return sentence + "."


def findings(result: ReplayResult) -> list[str]:
    """What is wrong, a line each."""
    found = list(result.logical.findings)
    if result.physical is not None:
        found += [f"with the model: {line}" for line in result.physical.logical.findings]
        bad = [sample for sample in result.physical.samples if not sample.agrees]
        if bad:
            first = bad[0]
            found.append(
                f"pool, step {first.step}: {first.simulator} simulated, {first.engine} read, {first.torn} slots torn, "
                f"{first.misplaced} misplaced; {len(bad)} of {len(result.physical.samples)} accounts differ"
            )
    return found


def divergence(result: ReplayResult) -> list[str]:
    """The first divergence with both sides' state, line by line; nothing if there is none."""
    parts = [result.logical] if result.physical is None else [result.logical, result.physical.logical]
    for part in parts:
        if part.divergence is not None:
            return parting(part.divergence, result.experiment.names)
    return []


def not_compared(result: ReplayResult) -> list[str]:
    """What a reader must know was left out."""
    said = []
    if result.logical.not_offered:
        said.append(
            f"{result.logical.not_offered:,} requests are longer than --max-model-len and were given to neither side: "
            "the simulator turns them away, the engine would cut their answers."
        )
    if result.time is None:
        said.append("Times were not compared (--time).")
    if result.physical is None:
        said.append("No model ran: the pool was not read (--model).")
    return said


def _of(physical: Physical | None) -> Logical:
    assert physical is not None
    return physical.logical


def schedule(part: Logical, name: str) -> list[list[str]]:
    """The lines of one comparison of two schedules, in the columns of `table`."""
    ours = None if part.simulated is None else part.simulated.replay
    rows = [[name, "", "", _yes(part.agrees)]]
    for label, of in _figures(part.experiment.unit).items():
        cells = [NONE if log is None else f"{of(log):,}" for log in (ours, part.other)]
        rows.append([label, *cells, _yes(cells[0] == cells[1] != NONE)])
    rows.append(["  steps that agree", "", f"{part.steps_that_agree:,}", ""])
    return rows


def _figures(unit: str) -> dict[str, Callable[[ReplayLog], int]]:
    return {
        "  steps": lambda log: len(log.steps),
        "  rejected on arrival": lambda log: len(log.rejected),
        "  preemptions": lambda log: sum(len(step.preempted) for step in log.steps),
        "  tokens computed": lambda log: log.totals["scheduled_tokens"],
        "  tokens computed again": lambda log: log.totals["recomputed_tokens"],
        "  tokens found cached": lambda log: log.totals["prefix_hits_first"] + log.totals["prefix_hits_return"],
        f"  most {unit} used": lambda log: max((step.blocks_used for step in log.steps), default=0),
    }


def _pool(physical: Physical) -> list[list[str]]:
    samples = physical.samples
    rows = [["slots of the pool, mean", "", "", _yes(all(sample.agrees for sample in samples))]]
    for name in ("used", "reserved", "internal", "free"):
        ours, theirs = ([getattr(getattr(s, side), name) for s in samples] for side in ("simulator", "engine"))
        means = [f"{sum(values) / len(values):,.1f}" if values else NONE for values in (ours, theirs)]
        rows.append([f"  {name}", *means, _yes(ours == theirs)])
    return [*rows, ["  accounts read", "", f"{len(samples):,}", ""]]


def parting(found: Divergence, names: Sequence[str]) -> list[str]:
    """A divergence with both sides' state, line by line."""
    lines = [f"first divergence, step {found.number}: {', '.join(found.columns)}"]
    for side, step in (("agreed before", found.before), ("simulator", found.simulator), (found.side, found.other)):
        if step is not None or side != "agreed before":
            lines.append(f"  {side:14}{'has ended' if step is None else _step(step, names)}")
    for side, state in (("simulator", found.simulator_state), (found.side, found.other_state)):
        if state is not None:
            lines.append(f"  {side:14}{_state(state, names, _first_difference(found))}")
    return lines


def _step(step: ReplayStep, names: Sequence[str]) -> str:
    events = [
        ("admitted", [f"{names[row]} (found {hit})" if hit else names[row] for row, hit in step.admitted]),
        ("preempted", [names[row] for row in step.preempted]),
        ("finished", [names[row] for row in step.finished]),
    ]
    counts = (
        f"step {step.step} at {step.start_s:.9g} s for {step.duration_s:.6g} s: {step.running} run, "
        f"{step.waiting} wait, {step.scheduled_tokens} tokens, {step.blocks_used} used"
    )
    return "; ".join([counts, *(f"{what} {', '.join(who)}" for what, who in events if who)])


def _state(state: State, names: Sequence[str], start: int) -> str:
    """`start`: the place from which on the two sides' lists differ."""
    start = max(0, min(start - SHOWN_RUNNING // 2, len(state) - SHOWN_RUNNING))
    shown = ", ".join(f"{names[row]} {computed}" for row, computed in state[start : start + SHOWN_RUNNING])
    before = f"{start} others, " if start else ""
    behind = len(state) - start - SHOWN_RUNNING
    return f"computed: {before}{shown or 'nobody runs'}{f', {behind} others' if behind > 0 else ''}"


def _first_difference(found: Divergence) -> int:
    ours, theirs = found.simulator_state or (), found.other_state or ()
    return next(
        (k for k, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), min(len(ours), len(theirs))
    )


def _yes(value: bool) -> str:
    return "yes" if value else "NO"
