"""The topics by name, and one with the parameters that a person gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagesim.sim.errors import UsageError
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.exercise import Topic
from pagesim.sim.quiz.kernel import Account, Kernel
from pagesim.sim.quiz.paging import Paging
from pagesim.sim.quiz.placement import Placement
from pagesim.sim.quiz.preemption import Preemption
from pagesim.sim.quiz.prefix import Prefix

TOPICS: dict[str, Any] = {each.NAME: each for each in (Placement, Paging, Prefix, Preemption, Kernel)}


def topic(name: str, said: Mapping[str, Any], is_explicit: bool, account: Account) -> Topic:
    """The topic called `name` with the parameters that were `said`. `account` is the kernels'.

    Raises UsageError if there is no such topic, a parameter is of another or out of range, or if it decides only what
    is drawn, and the sequence is a student's own.
    """
    if name not in TOPICS:
        raise UsageError(f"--topic {name}; accepted: {', '.join(TOPICS)}")
    chosen = TOPICS[name]
    others = {"account": account} if chosen is Kernel else {}
    made: Topic = parameters.made(chosen, said, **others)
    drawn = [each for each in said if each in chosen.DRAWN]
    if is_explicit and drawn:
        raise UsageError(
            f"{parameters.flag(drawn[0])} and --explicit, which says all of that; accepted: one of the two"
        )
    return made
