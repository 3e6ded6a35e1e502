"""How a trace is dealt out to several cards, each of which serves its own share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.trace import Ints, Trace

Route = Literal["round-robin", "prefix"]
ROUTES: tuple[Route, ...] = ("round-robin", "prefix")
ALIKE = 0.5  # of a prompt's ids: with less in common, it goes where most room is (SGLang's router, cache_threshold)


def shares(trace: Trace, cards: int, route: Route) -> Iterator[Trace]:
    """The requests of each card, at their own times; cards that get none are left out.

    "round-robin": one after the other. "prefix": a prompt goes to the card that has had the longest beginning of it, if
    that is more than half of it, and else to the one with the fewest prompt tokens so far. That is by what was sent
    there, not by what its cache still has. Raises UsageError if the trace says nothing of beginnings.
    """
    card = np.arange(len(trace)) % cards if route == "round-robin" else _by_beginning(trace, cards)
    return (trace.take(rows) for k in range(cards) if len(rows := np.flatnonzero(card == k)))


def _by_beginning(trace: Trace, cards: int) -> Ints:
    """The card of each request, int64 [requests]."""
    if trace.hash_ids is None:
        raise UsageError("--route prefix: this trace has no hash_ids; accepted: --route round-robin")
    sent, had = [0] * cards, dict[tuple[int, int], tuple[int, set[int]]]()  # (parent, id): its number, who has had it
    chosen = []
    for row, tokens in enumerate(trace.prompt_tokens.tolist()):
        path: list[set[int]] = []
        parent = 0
        for hash_id in trace.hash_ids[row].tolist():
            parent, cards_here = had.setdefault((parent, hash_id), (len(had) + 1, set()))
            path.append(cards_here)
        card = _longest(path, sent)
        chosen.append(card)
        sent[card] += tokens
        for cards_here in path:
            cards_here.add(card)
    return np.array(chosen, np.int64)


def _longest(path: list[set[int]], sent: list[int]) -> int:
    known = [cards for cards in path if cards]  # a beginning of the path: who has had an id has had those before it
    candidates = known[-1] if len(known) > ALIKE * len(path) else range(len(sent))
    return min(candidates, key=lambda card: (sent[card], card))
