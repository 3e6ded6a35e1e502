"""A frontier in words: its table, a sentence for each line, and how many cards a trace takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pagesim.sim.setting import percent
from pagesim.sim.stats import Interval
from pagesim.sim.sweep.bisection import HIGHEST, LOWEST, State
from pagesim.sim.sweep.frontier import Frontier, Line
from pagesim.sim.sweep.search import MOST_CARDS
from pagesim.sim.sweep.words import NONE, option_words, value_words

WORTH_SAYING = 0.0005
SOMETIMES: dict[str, Callable[[Line], bool]] = {  # columns that are shown where some line has them
    "found in cache": lambda line: line.prefix_hit_share is not None,
    "cards": lambda line: line.cards is not None,
}


def head(lines: list[Line], frontier: Frontier) -> list[str]:
    """Of each column of the table."""
    figures = [term.text.split("<")[0].replace("_", " ") for term in frontier.objective.terms]
    sometimes = [word for word, is_there in SOMETIMES.items() if any(map(is_there, lines))]
    return [*map(option_words, lines[0].options), "allocator", "load", "requests/s", *figures, *sometimes]


def rows(lines: list[Line], frontier: Frontier) -> list[list[str]]:
    """A cell for each column, of all that makes sense."""
    there = [is_there for is_there in SOMETIMES.values() if any(map(is_there, lines))]
    return [_row(line, frontier, [is_there in there for is_there in SOMETIMES.values()]) for line in lines
            if line.allocator is not None]  # fmt: skip


def _row(line: Line, frontier: Frontier, shown: list[bool]) -> list[str]:
    figures = [
        term.said(line.figures[term.figure].mean) if term.figure in line.figures else NONE
        for term in frontier.objective.terms
    ]
    hit = NONE if line.prefix_hit_share is None else percent(line.prefix_hit_share)
    said = [value_words(value) for value in line.options.values()]
    cards = NONE if not line.cards or line.cards["cards"] is None else f"{line.cards['cards']:,}"
    sometimes = [cell for cell, is_shown in zip((hit, cards), shown, strict=True) if is_shown]
    rate = NONE if line.rate_per_s is None else _both(line.rate_per_s)
    return [*said, str(line.allocator), _load(line), rate, *figures, *sometimes]


def _load(line: Line) -> str:
    if line.state is State.NEVER:
        return f"under {LOWEST:.2g}"
    if line.state is State.ALWAYS:
        return f"{HIGHEST:g} and more"
    return NONE if line.load is None else _both(line.load)


def _both(value: Interval) -> str:
    return f"{value.mean:.3g}" + ("" if value.half is None else f" ± {value.half:.2g}")


def sentences(lines: list[Line], frontier: Frontier) -> list[str]:
    """One for each line, then one for each that says how many cards a trace takes."""
    told = [f"{name(line)}: {_found(line, frontier)}." for line in lines]
    return told + [f"{name(line)}: {_cards(line, frontier)}." for line in lines if line.cards is not None]


def name(line: Line) -> str:
    """Which line it is: what varies, and the allocator."""
    there = {option: value for option, value in line.options.items() if value is not None}
    said = ", ".join(f"{option_words(option)} {value_words(value)}" for option, value in there.items())
    return ", ".join(part for part in (said, line.allocator) if part)


def _found(line: Line, frontier: Frontier) -> str:
    text = frontier.objective.text
    if line.error is not None:
        return line.error
    if line.state is State.NEVER:
        return f"{text} does not hold even at a load of {LOWEST:.2g}"
    if line.state is State.ALWAYS:
        return f"{text} holds at any load, up to {HIGHEST:g}, the last that was tried{_few(frontier)}"
    if line.load is None:
        each = ", ".join(f"{state} with {count}" for state, count in line.states.items())
        return f"the seeds differ on whether there is a highest load at all ({each}): more --requests would tell"
    rate = "" if line.rate_per_s is None else f", {_both(line.rate_per_s)} requests/s"
    rejected = line.rejected_share or 0.0
    left_out = f"; {percent(rejected)} of the requests can never be served and are in no figure"
    found = f"; {percent(line.prefix_hit_share or 0.0)} of the prompt tokens are found in the cache there"
    return (
        f"{text} holds up to a load of {_both(line.load)}{rate}"
        + (found if line.prefix_hit_share is not None else "")
        + (left_out if rejected > WORTH_SAYING else "")
    )


def _few(frontier: Frontier) -> str:
    """Of a short trace even all at once may be too little, whatever the allocator."""
    asked = frontier.plan.variants[0].options["requests"]
    return "" if asked is None else f", where all {asked:,} requests (--requests) come nearly at once"


def _cards(line: Line, frontier: Frontier) -> str:
    assert line.cards is not None
    number, tp = line.cards["cards"], _tp(line, frontier)
    if number is None:
        return f"no number of cards, up to {MOST_CARDS:,} or one for each request, holds {frontier.objective.text}"
    rate = line.cards["own_rate_per_s"]
    trace = "this trace" if rate is None else f"this trace, {rate:.3g} requests/s,"
    groups = f"{number} card{'s' if number > 1 else ''}"
    if tp > 1:
        groups = f"{number * tp} cards, {number} group{'s' if number > 1 else ''} of {tp},"
    on, less = line.cards["on_cards"], line.cards["one_less"]
    dealt = f", dealt out by {frontier.route}" if number > 1 else ""
    parts = [f"{trace} takes {groups}{dealt}: {_worst(on, frontier)} at worst"]
    if less is not None:
        parts.append(f"with one {'card' if tp == 1 else 'group'} less some card has {_worst(less, frontier)}")
    if on["prefix_hit_share"] is not None:
        parts.append(f"{percent(on['prefix_hit_share'])} of the prompt tokens are found in the caches")
    if on["rejected_share"] > WORTH_SAYING:
        parts.append(f"{percent(on['rejected_share'])} of the requests can never be served, and are not counted")
    return "; ".join(parts)


def _tp(line: Line, frontier: Frontier) -> int:
    options = frontier.plan.variants[0].options
    return int(line.options.get("tp", options["tp"]) or 1)


def _worst(runs: Mapping[str, Any], frontier: Frontier) -> str:
    worst = runs["worst"]
    return ", ".join(f"{term.text.split('<')[0]} {term.said(worst[term.figure])}" for term in frontier.objective.terms)
