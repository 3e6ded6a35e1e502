"""The PagedAttention paper's figures beside ours: `paper-sharegpt` and `paper-alpaca`."""

from __future__ import annotations

from collections.abc import Mapping

from pagesim.sim.experiments.experiment import Experiment, Logs
from pagesim.sim.experiments.paper import (
    ALPACA,
    GAMMA,
    MAX,
    ORACLE,
    PAGING,
    POW2,
    SHAREGPT,
    SIGMA,
    SLOWER,
    SLOWER_SHAREGPT,
    PaperLoad,
    batch_by_steps,
    paper_runs,
    shares_of,
)
from pagesim.sim.experiments.row import Row, Standing, exact, held_out, ours
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.shares import PoolShares
from pagesim.sim.serving.steptime import StepTime

KINDS = ("token states", "reservation", "internal", "external and others")
ASSUMED = (
    f"Lengths lognormal, sigma {SIGMA:g}, drawn apart, prompts of 4 to 1,024 tokens, answers of 4 or more, together up "
    f"to 2,048, by the published means; one draw. Each step takes {SLOWER:g} times what an A100's data sheet permits. "
    "Paging keeps 1% of its blocks free at admissions. Means from ten minutes after the start to the last arrival."
)
FITTED = {(SHAREGPT.name, MAX, "reservation"), (ALPACA.name, PAGING, "batch")}
BY_LENGTHS = {(SHAREGPT.name, POW2), (ALPACA.name, POW2), (ALPACA.name, ORACLE)}  # found by changing the shape

TAIL = "Depends on how many answers pass 1,024 tokens, as the rows with other lengths show."
SPREAD = "On a spread of lengths found for ShareGPT; gamma lengths move it by"
REMARKS = {
    (SHAREGPT.name, MAX, "token states"): "The prompt, and half of the answer, of those that run.",
    (SHAREGPT.name, MAX, "reservation"): "Half of the answer of those that run: the spread of lengths was found on it.",
    (SHAREGPT.name, MAX, "internal"): "What the other rows of this system leave of seven runs.",
    (SHAREGPT.name, MAX, "external and others"): "Seven runs of 2,048 in 15,728 slots; the rest is too small for one.",
    (SHAREGPT.name, MAX, "batch"): "Seven runs.",
    (SHAREGPT.name, ORACLE, "internal"): "It asks for what it fills; what the buddy system adds is external.",
    (SHAREGPT.name, PAGING, "token states"): "The rest is the tails of last blocks, and blocks kept free.",
    (SHAREGPT.name, PAGING, "batch"): "By the published share and batch a sequence that runs holds 498 tokens, in Orca "
    "(Max) 458, here 447: the two published are hardly means over the same time.",
    (ALPACA.name, MAX, "batch"): "Seven runs, however short the requests.",
    (ALPACA.name, PAGING, "batch"): "Rate and answers by the time of a step: how slow the machine is was found on it.",
    (ALPACA.name, POW2, "batch"): f"{SPREAD} 18%.",
    (ALPACA.name, ORACLE, "batch"): f"{SPREAD} 15%.",
}
OF_PAGING = {
    "token states": "The prompt, and half of the answer, of those that run.",
    "reservation": "Blocks are taken as tokens fill them.",
    "internal": "The tails of last blocks.",
    "external and others": "Free blocks.",
}
CHANGED = {
    "gamma lengths": f"Lengths of gamma shape {GAMMA:g}, which meet the same figures: fewer that are very long.",
    "answers to 1,024": "Answers cut at 1,024 tokens, their spread found again on the same figure.",
    "past the context": "The rounded answer may pass 2,048 tokens, and then takes a run of 4,096.",
    "data sheet": "On a machine as fast as its data sheet; where nobody waits, the rate sets the batch.",
    f"{SLOWER_SHAREGPT:g} times the data sheet": "The machine that would meet this batch has memory to spare.",
}


def paper_sharegpt(step_time: StepTime) -> Experiment:
    """Long answers, 2 requests/s."""
    shows = (
        "What a buddy system behind three ways of asking for room, and paging, make of 15.7 K slots: Orca (Max), "
        "Orca (Pow2), Orca (Oracle) and vLLM in the PagedAttention paper, ShareGPT at 2 requests/s."
    )
    return _paper(SHAREGPT, shows, step_time)


def paper_alpaca(step_time: StepTime) -> Experiment:
    """Short answers, 30 requests/s."""
    return _paper(ALPACA, "The same for the short prompts and answers of Alpaca, at 30 requests/s.", step_time)


def _paper(load: PaperLoad, shows: str, step_time: StepTime) -> Experiment:
    runs = paper_runs(load, step_time)
    return Experiment(load.name, shows, ASSUMED, runs, lambda logs: _rows(load, logs))


def _rows(load: PaperLoad, logs: Logs) -> list[Row]:
    found = {name: shares_of(log) for name, log in logs.items()}
    rows = _lengths(load, logs[MAX])
    for name, shares in found.items():
        system, _, changed = name.partition(", ")
        if not changed:
            rows += _system(load, system, shares)
        elif changed in CHANGED:
            rows += _changed(load, system, changed, shares)
    rows.append(_by_steps(load, logs[PAGING]))
    return rows + _draws(load, found) if load is SHAREGPT else rows


def _lengths(load: PaperLoad, log: ServingLog) -> list[Row]:
    """What was drawn."""
    remark = "The shape is scaled to it; the rest is the luck of the draw, and pairs past the context left out."
    return [
        Row("lengths", f"mean {what}", (published,), float(drawn.mean()), "tokens", Standing.FITTED, remark)
        for what, published, drawn in (
            ("prompt", load.prompt_mean, log.prompt_tokens),
            ("answer", load.output_mean, log.output_tokens),
        )
    ]


def _kinds(load: PaperLoad, system: str, shares: PoolShares) -> list[tuple[str, float | None, float]]:
    """(kind, published, ours) of the pool."""
    published = load.shares.get(system, (None,) * len(KINDS))
    values = (shares.token_states, shares.reservation, shares.internal, shares.external)
    return list(zip(KINDS, published, values, strict=True))


def _system(load: PaperLoad, system: str, shares: PoolShares) -> list[Row]:
    """A system as it was published."""
    rows = [_row(load, system, *kind, "share") for kind in _kinds(load, system, shares)]
    rows.append(_row(load, system, "batch", load.batch[system], shares.batch, "requests"))
    waited = "Saturated: memory alone sets the batch." if shares.waited > 0.99 else "Not saturated: the rate sets it."
    return [*rows, ours("waited", f"{system}: time in which somebody waits", shares.waited, "share", waited)]


def _figure(unit: str) -> str:
    """The paper's figures, in a word: shares of the pool (2), sequences in the batch (13)."""
    return "batch" if unit == "requests" else "shares"


def _row(load: PaperLoad, system: str, kind: str, published: float | None, value: float, unit: str) -> Row:
    figure, what, key = _figure(unit), f"{system}: {kind}", (load.name, system, kind)
    if published is None:
        return ours(figure, what, value, unit, OF_PAGING[kind] if system == PAGING else "Not published.")
    if key in FITTED:
        return Row(figure, what, (published,), value, unit, Standing.FITTED, REMARKS[key])
    if (load.name, system) in BY_LENGTHS:
        remark = REMARKS.get(key, TAIL)
        return Row(figure, what, (published,), value, unit, Standing.UNKNOWN_LENGTH, remark)
    if published == 0:
        return exact(figure, what, published, value, unit, REMARKS[key])
    return held_out(figure, what, (published,), value, unit, REMARKS.get(key, "Nothing was fitted on it."))


def _changed(load: PaperLoad, system: str, changed: str, shares: PoolShares) -> list[Row]:
    """The same with one thing changed: the two shares that are published, and the batch."""
    kinds = [kind for kind in _kinds(load, system, shares) if kind[0] in (KINDS[0], KINDS[3])]
    values = [*((*kind, "share") for kind in kinds), ("batch", load.batch[system], shares.batch, "requests")]
    return [
        Row(_figure(unit), f"{system}, {changed}: {kind}", (published,), value, unit, Standing.TRIED, CHANGED[changed])
        for kind, published, value, unit in values
        if published is not None
    ]


def _by_steps(load: PaperLoad, log: ServingLog) -> Row:
    """Another way of counting."""
    remark = (
        "Prompts in steps of their own, as the paper's engine computed them: brings one of the two loads nearer, and "
        "takes the other away by half, so it is not the reason."
    )
    what, published = f"{PAGING}, counted by steps: batch", (load.batch[PAGING],)
    return Row("batch", what, published, batch_by_steps(log), "requests", Standing.TRIED, remark)


def _draws(load: PaperLoad, found: Mapping[str, PoolShares]) -> list[Row]:
    """How far the luck of the draw goes."""
    rows = []
    for system in (POW2, ORACLE):
        others = [shares for name, shares in found.items() if name.startswith(f"{system}, draw ")]
        for kind, published, unit, values in (
            (KINDS[3], load.shares[system][3], "share", [shares.external for shares in others]),
            ("batch", load.batch[system], "requests", [shares.batch for shares in others]),
        ):
            assert published is not None
            for word, value in (("least", min(values)), ("most", max(values))):
                remark = f"{len(others)} other draws of the same lengths."
                what = f"{system}, other draws: {word} {kind}"
                rows.append(Row(_figure(unit), what, (published,), value, unit, Standing.TRIED, remark))
    return rows
