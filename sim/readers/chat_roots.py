"""Which conversation a turn belongs to, where each turn names only the turn before it."""

from __future__ import annotations

import numpy as np

from pagesim.sim.errors import TraceError
from pagesim.sim.trace import Ints

NO_PARENT = -1  # how Qwen-Bailian writes that a chat is the first of its conversation


def chat_roots(chat_id: Ints, parent_chat_id: Ints) -> tuple[Ints, int]:
    """(id of the first chat of each row's conversation, how many rows name a parent that is not there).

    Where a parent is not there, its id stands for the conversation. Each round of the loop doubles how far a row looks
    back, so that a conversation of any length takes some 64 rounds at most. Raises TraceError on a circle.
    """
    order = np.argsort(chat_id, kind="stable")
    place = np.minimum(np.searchsorted(chat_id[order], parent_chat_id), len(order) - 1)
    first = parent_chat_id == NO_PARENT
    orphan = ~first & (chat_id[order[place]] != parent_chat_id)
    top = np.where(first | orphan, np.arange(len(order)), order[place])
    for _ in range(64):
        top = top[top]
    circle = ~(first | orphan)[top]
    if circle.any():
        row = int(np.argmax(circle))
        raise TraceError(f"chat {chat_id[row]} is its own ancestor; accepted: parents that end at {NO_PARENT}")
    roots: Ints = np.where(orphan, parent_chat_id, chat_id)[top]
    return roots, int(orphan.sum())
