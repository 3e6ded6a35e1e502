"""How a free run is found, cut and given back, in words, for the rules of `placement`.

These explain what an allocator has done. Where the explanation would lead elsewhere, an assertion fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagesim.sim.allocators import Extent
from pagesim.sim.quiz.wording import counted

SHOWN = 12  # runs that are passed over and shown one by one


def run_text(run: Extent) -> str:
    """[a, b)."""
    return f"[{run.start}, {run.start + run.tokens})"


def runs(free: Sequence[Extent]) -> str:
    """All of them, or none."""
    return " ".join(map(run_text, free)) or "none"


def fit_searched(
    policy: str, free: Sequence[Extent], tokens: int, address: int | None, last_end: int
) -> list[str]:  # fmt: skip
    """How one of the four fits finds `address` among the `free` runs, in order of address."""
    if address is None:
        return [_why_refused(free, tokens)]
    (taken,) = (run for run in free if run.start == address)
    enough = [run for run in free if run.tokens >= tokens]
    if policy in ("first", "next"):
        lines = _walked(free, taken, tokens, last_end if policy == "next" else 0, policy == "next")
    else:
        best = (min if policy == "best" else max)(enough, key=lambda run: run.tokens)
        assert best == taken, (policy, free, tokens, address)
        word = "smallest" if policy == "best" else "largest"
        sizes = ", ".join(f"{run_text(run)} has {run.tokens}" for run in enough[:SHOWN])
        more = f" and {len(enough) - SHOWN} more" if len(enough) > SHOWN else ""
        lines = [f"large enough for {tokens}: {sizes}{more}", f"the {word} is {run_text(taken)}"]
    return [*lines, _cut(taken, tokens)]


def _walked(free: Sequence[Extent], taken: Extent, tokens: int, since: int, is_next: bool) -> list[str]:
    order = [run for run in free if run.start >= since] + [run for run in free if run.start < since]
    passed = order[: order.index(taken)]
    assert all(run.tokens < tokens for run in passed) and taken.tokens >= tokens, (free, taken, tokens)
    lines = [f"the last search ended at {since}: first the runs that start there or later, then those before"]
    lines = lines if is_next else []
    lines += [f"{run_text(run)} has {run.tokens}: too few" for run in passed[:SHOWN]]
    lines += [f"{len(passed) - SHOWN} more have too few"] if len(passed) > SHOWN else []
    return [*lines, f"{run_text(taken)} has {taken.tokens}: enough, and the first that is"]


def _cut(taken: Extent, tokens: int) -> str:
    rest = Extent(taken.start + tokens, taken.tokens - tokens)
    left = f"{run_text(rest)} stays free" if rest.tokens else "nothing is left of it"
    return f"{run_text(Extent(taken.start, tokens))} is the sequence's; {left}"


def _why_refused(free: Sequence[Extent], tokens: int) -> str:
    total, largest = sum(run.tokens for run in free), max((run.tokens for run in free), default=0)
    if total < tokens:
        return f"{counted(total, 'slot')} free in all, too few for {tokens}: the pool is full"
    return (
        f"{counted(total, 'slot')} free in all, enough for {tokens}, but the largest run has {largest}: external waste"
    )


def fit_joined(run: Extent, before: Sequence[Extent], after: Sequence[Extent]) -> list[str]:
    """What a run that is given back touches."""
    touched = [other for other in before if run.start in (other.start + other.tokens, other.start - run.tokens)]
    joined = next(e for e in after if e.start <= run.start < e.start + e.tokens)
    assert joined.tokens == run.tokens + sum(other.tokens for other in touched), (run, before, after)
    if not touched:
        return [f"{run_text(run)} comes back and touches no free run"]
    return [
        f"{run_text(run)} comes back, touches {runs(touched).replace(') [', ') and [')}: one run, {run_text(joined)}"
    ]


def buddy_split(free: Sequence[Extent], tokens: int, address: int | None) -> list[str]:
    """How the buddy system comes from the free runs to the one at `address`."""
    wanted = 1 << (tokens - 1).bit_length()
    lines = [f"the least power of two that holds {tokens} is {wanted}"]
    enough = sorted({run.tokens for run in free if run.tokens >= wanted})
    if address is None:
        assert not enough, (free, tokens)
        return [*lines, _why_refused(free, tokens)]
    size = enough[0]
    same = [run for run in free if run.tokens == size]
    taken = same[-1]
    of = f", of {len(same)} of that size the one that came free last" if len(same) > 1 else ""
    lines.append(f"the smallest free run of {wanted} or more has {size}: {run_text(taken)}{of}")
    while size > wanted:
        size //= 2
        upper = run_text(Extent(taken.start + size, size))
        lines.append(f"halved: {upper} stays free, {run_text(Extent(taken.start, size))} goes on")
    assert taken.start == address, (free, tokens, address)
    waste = wanted - tokens
    kept = f"; {counted(waste, 'slot')} of it will never be filled: internal waste" if waste else ""
    return [*lines, f"{run_text(Extent(address, wanted))} is the sequence's{kept}"]


def buddy_joined(run: Extent, before: Sequence[Extent], after: Sequence[Extent]) -> list[str]:
    """Which buddies a run that is given back joins."""
    lines, here = [f"{run_text(run)} comes back"], run
    while here not in after:
        buddy = Extent(here.start ^ here.tokens, here.tokens)
        assert buddy in before, (run, before, after)
        here = Extent(min(here.start, buddy.start), 2 * here.tokens)
        lines.append(f"its buddy {run_text(buddy)} is free: they join to {run_text(here)}")
    buddy = Extent(here.start ^ here.tokens, here.tokens)
    return [*lines, f"the buddy of {run_text(here)} would be {run_text(buddy)}, which is not a free run: done"]
