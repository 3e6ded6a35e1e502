"""A sequence: one prompt and the answer growing behind it, and the place in the cache that it holds meanwhile.

Left out: what its tokens say, and how they were sampled.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from pagesim.engine.errors import RequestError


class Status(Enum):
    """Where a sequence is. PENDING: a fork whose prompt another is still computing."""

    WAITING = "waiting"
    PENDING = "pending"
    RUNNING = "running"
    FINISHED = "finished"


class FinishReason(Enum):
    """Why a sequence ended: its last token, the most tokens it may have, or its caller's wish."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Sampling(Protocol):
    """What the scheduler must know of a request's sampling parameters."""

    @property
    def max_tokens(self) -> int:
        """The most tokens that are sampled, at least 1."""
        ...


class Sequence:
    """One prompt with one answer.

    `tokens`: prompt and outputs so far; `num_computed`: how many of them have K and V in the cache. `forks`: more
    samples of the same prompt, which start from this one's cache once the prompt is computed; until then they wait
    inside it. `salt` and `adapter`: two sequences share cached blocks only if both are equal. `priority`: lower goes
    first, under policy "priority". `rank`: its place among all others, lower first, given by the scheduler.

    The cache manager writes what it holds: `block_table` (paged: physical blocks) or `first_slot` (contiguous: where
    its run starts), `block_hashes` and `num_entered` (prefix cache: hashes of
    the full blocks that its tokens make, and how many blocks of the table are entered under theirs).

    Raises RequestError on an empty prompt or a `max_tokens` below 1.
    """

    __slots__ = (
        "adapter", "block_hashes", "block_table", "finish_reason", "first_slot", "forks", "id", "max_length",
        "most_computed", "num_computed", "num_entered", "num_preemptions", "num_prompt", "priority", "rank", "salt",
        "sampling", "status", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        prompt: list[int],
        sampling: Sampling,
        *,
        salt: str | None = None,
        adapter: str | None = None,
        priority: int = 0,
        forks: tuple[Sequence, ...] = (),
    ) -> None:
        if not prompt:
            raise RequestError(f"request {id!r} has an empty prompt; accepted: at least 1 token")
        if sampling.max_tokens < 1:
            raise RequestError(f"max_tokens of request {id!r} is {sampling.max_tokens}; accepted: at least 1")
        self.id = id
        self.tokens = list(prompt)
        self.num_prompt = len(prompt)
        self.sampling = sampling
        self.salt = salt
        self.adapter = adapter
        self.priority = priority
        self.forks = forks
        self.rank = (0, 0)
        self.max_length = self.num_prompt + sampling.max_tokens  # the scheduler cuts it to max_model_len
        self.status = Status.WAITING
        self.finish_reason: FinishReason | None = None
        self.num_computed = 0
        self.most_computed = 0  # the most it ever was when preempted: what lies below was computed before
        self.num_preemptions = 0
        self.block_table: list[int] = []
        self.first_slot: int | None = None
        self.block_hashes: list[bytes] = []
        self.num_entered = 0

    def __repr__(self) -> str:
        return f"Sequence({self.id!r}, {self.status.value}, {self.num_computed} of {len(self.tokens)} tokens computed)"

    @property
    def prompt(self) -> list[int]:
        """The prompt's token ids."""
        return self.tokens[: self.num_prompt]

    @property
    def outputs(self) -> list[int]:
        """The token ids sampled so far."""
        return self.tokens[self.num_prompt :]

    @property
    def num_outputs(self) -> int:
        """How many tokens have been sampled."""
        return len(self.tokens) - self.num_prompt

    @property
    def max_slots(self) -> int:
        """Slots it holds at its end: the last sampled token is never computed and needs none."""
        return self.max_length - 1
