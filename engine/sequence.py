"""A sequence: one prompt and the answer growing behind it, and the place in the cache that it holds meanwhile.

Left out: what its tokens say.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from enum import Enum

from pagesim.engine.errors import RequestError
from pagesim.engine.sampling import SamplingParams


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


@dataclass(slots=True, eq=False, repr=False)
class Sequence:
    """One prompt with one answer.

    `tokens`: the prompt, later with the outputs so far; `num_computed`: how many of them have K and V in the cache.
    `forks`: more samples of the same prompt, which start from this one's cache once the prompt is computed; until then
    they wait inside it. `salt` and `adapter`: two sequences share cached blocks only if both are equal. `priority`:
    lower goes first, under policy "priority". `rank`: its place among all others, lower first, given by the scheduler.

    The cache manager writes what it holds: `block_table` (paged: physical blocks) or `first_slot` (contiguous: where
    its run starts), `block_hashes` and `num_entered` (prefix cache: hashes of the full blocks that its tokens make, and
    how many blocks of the table are entered under theirs).

    Raises RequestError on an empty prompt.
    """

    id: str
    tokens: list[int]
    sampling: SamplingParams
    _: KW_ONLY
    salt: str | None = None
    adapter: str | None = None
    priority: int = 0
    forks: tuple[Sequence, ...] = ()
    rank: tuple[int, int] = field(default=(0, 0), init=False)
    num_prompt: int = field(init=False)
    max_length: int = field(init=False)  # the scheduler cuts it to max_model_len
    status: Status = field(default=Status.WAITING, init=False)
    finish_reason: FinishReason | None = field(default=None, init=False)
    num_computed: int = field(default=0, init=False)
    most_computed: int = field(default=0, init=False)  # the most when preempted: what lies below was computed before
    num_preemptions: int = field(default=0, init=False)
    block_table: list[int] = field(default_factory=list, init=False)
    first_slot: int | None = field(default=None, init=False)
    block_hashes: list[bytes] = field(default_factory=list, init=False)
    num_entered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.tokens:
            raise RequestError(f"request {self.id!r} has an empty prompt; accepted: at least 1 token")
        self.tokens = list(self.tokens)
        self.num_prompt = len(self.tokens)
        self.max_length = self.num_prompt + self.sampling.max_tokens

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
    def max_slots(self) -> int:
        """Slots it holds at its end: the last sampled token is never computed and needs none."""
        return self.max_length - 1
