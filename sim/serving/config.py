"""The rules of one serving run: pool, budgets, admission, preemption, prefix caching. The defaults live here."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from pagesim.sim.errors import UsageError
from pagesim.sim.pool import NOTE_POOL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pagesim.sim.trace import Ints

Policy = Literal["fcfs", "priority"]
PAGED = "paged"
MAX_POOL = 2**40  # blocks, or tokens of one: more is a mistake of unit
Evict = Literal["lru", "fifo", "random", "optimal"]
Preempt = Literal["recompute", "swap"]
Fork = Literal["none", "cow"]
Victim = Literal["last", "longest", "shortest", "fewest-blocks"]
OF_BLOCKS = {  # fields that go with paging alone
    "allocator", "prefix_caching", "prefix_match_unit", "evict", "evict_seed", "preempt", "host_blocks",
    "host_bandwidth_bytes_per_s", "bytes_per_token", "fork",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """Everything that decides what the scheduler does; how long a step takes is a step-time model's business.

    The names are vLLM's: `num_blocks` counts the null block, which no sequence gets (usable = num_blocks - 1);
    `token_budget` is max_num_batched_tokens; `long_prefill_threshold` 0 means none; `watermark` is the share of
    `num_blocks` that an admission must leave free while something runs. `policy` "priority" serves the least priority
    number first, and preempts the greatest. `victim` other than "last" is a what-if that no engine measured has; with
    "priority" it must stay "last". `allocator` other than "paged" gives each sequence one run of slots for its whole
    answer, out of as many slots as the usable blocks have.

    What-ifs, which vLLM 0.29 does not have. `prefix_match_unit`: tokens of which a match is a multiple, so that it may
    end inside a block, which is then copied (see `fine_pool`); 0: whole blocks. `evict`: which free block that prefix
    caching could still find is taken when no plain one is left: the least recently freed; the one that could be found
    first, `fifo`; any, drawn with `evict_seed`; or the one that is asked for last, `optimal` (see ranking.FutureUse).
    `preempt`: a victim is computed again, or with "swap" its blocks go to `host_blocks` blocks of host memory, over a
    link of `host_bandwidth_bytes_per_s`, at `bytes_per_token` of the KV cache, and come back (see `host`).
    `fork`: samples of one prompt are requests of their own, or share it and copy on write (see `forking_pool`); then
    all of them have a seat, and decode in one step, from the start, so `max_num_seqs` and `token_budget` limit both.

    Raises UsageError on values that make no sense.
    """

    num_blocks: int = NOTE_POOL.num_blocks
    block_size: int = NOTE_POOL.block_size
    token_budget: int = 2048
    max_num_seqs: int = 256
    max_model_len: int = 2048
    prefix_caching: bool = False
    chunked_prefill: bool = True
    long_prefill_threshold: int = 0
    reserve_full_isl: bool = True
    watermark: float = 0.0
    policy: Policy = "fcfs"
    victim: Victim = "last"
    allocator: str = PAGED
    prefix_match_unit: int = 0
    evict: Evict = "lru"
    evict_seed: int = 0
    preempt: Preempt = "recompute"
    host_blocks: int | None = None
    host_bandwidth_bytes_per_s: float | None = None
    bytes_per_token: int | None = None
    fork: Fork = "none"

    def __post_init__(self) -> None:
        for flag, value, low in (
            ("--num-blocks", self.num_blocks, 2),
            ("--block-size", self.block_size, 1),
            ("--token-budget", self.token_budget, 1),
            ("--max-num-seqs", self.max_num_seqs, 1),
            ("--max-model-len", self.max_model_len, 2),
            ("--long-prefill-threshold", self.long_prefill_threshold, 0),
            ("--prefix-match-unit", self.prefix_match_unit, 0),
            ("--evict-seed", self.evict_seed, 0),
        ):
            if value < low:
                raise UsageError(f"{flag} {value}; accepted: {low} or more")
        for flag, value in (("--num-blocks", self.num_blocks), ("--block-size", self.block_size)):
            if value > MAX_POOL:
                raise UsageError(f"{flag} {value}; accepted: up to {MAX_POOL}")
        if not 0 <= self.watermark < 1:
            raise UsageError(
                f"--watermark {self.watermark:g}; accepted: 0 or more and less than 1, a share of the pool"
            )
        for flag, word, accepted in (
            ("--policy", self.policy, get_args(Policy)),
            ("--victim", self.victim, get_args(Victim)),
            ("--evict", self.evict, get_args(Evict)),
            ("--preempt", self.preempt, get_args(Preempt)),
            ("--fork", self.fork, get_args(Fork)),
        ):
            if word not in accepted:
                raise UsageError(f"{flag} {word}; accepted: {', '.join(accepted)}")
        if self.policy == "priority" and self.victim != "last":
            raise UsageError(
                f"--policy priority and --victim {self.victim}: the policy chooses; accepted: --victim last"
            )
        if self.allocator != PAGED and self.prefix_caching:
            raise UsageError(
                f"--prefix-caching with --allocator {self.allocator}; accepted: paged, whose blocks can be shared"
            )
        self._check_host()
        if self.fork == "cow" and (self.prefix_caching or self.allocator != PAGED):
            other = "--prefix-caching" if self.prefix_caching else f"--allocator {self.allocator}"
            raise UsageError(f"--fork cow with {other}; accepted: paged blocks that are shared in one way, not two")
        if self.prefix_match_unit and not self.prefix_caching:
            raise UsageError(
                f"--prefix-match-unit {self.prefix_match_unit} without --prefix-caching: nothing is matched; accepted: "
                "both"
            )
        if self.prefix_match_unit and self.block_size % self.prefix_match_unit:
            raise UsageError(
                f"--prefix-match-unit {self.prefix_match_unit}; accepted: 0 for whole blocks, or what divides the "
                f"block size of {self.block_size}"
            )
        if self.evict != "lru" and not self.prefix_caching:
            raise UsageError(f"--evict {self.evict} without --prefix-caching: nothing is kept; accepted: both")
        if self.long_prefill_threshold and not self.chunked_prefill:
            raise UsageError(
                f"--long-prefill-threshold {self.long_prefill_threshold} and --no-chunked-prefill: a threshold cuts "
                "prompts; accepted: one of the two"
            )

    def _check_host(self) -> None:
        for flag, value in (
            ("--host-memory, in blocks,", self.host_blocks),
            ("--host-bandwidth, bytes/s,", self.host_bandwidth_bytes_per_s),
            ("bytes of a token", self.bytes_per_token),
        ):
            if (value is None) == (self.preempt == "swap"):
                given = "is not given" if value is None else f"{value:g}"
                raise UsageError(
                    f"--preempt {self.preempt} and {flag} {given}; accepted: it goes with swap, and only there"
                )
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{flag} {value:g}; accepted: more than 0")
        if self.preempt == "swap" and self.allocator != PAGED:
            raise UsageError(
                f"--preempt swap with --allocator {self.allocator}, which never preempts; accepted: --allocator paged"
            )

    @property
    def usable_blocks(self) -> int:
        """Blocks that sequences can get: all but the null block."""
        return self.num_blocks - 1

    @property
    def usable_tokens(self) -> int:
        """Slots that sequences can get."""
        return self.usable_blocks * self.block_size

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission must leave free while something runs; the null block counts in (vLLM)."""
        return int(self.watermark * self.num_blocks)

    def can_serve(self, prompt_tokens: Ints, output_tokens: Ints) -> NDArray[np.bool_]:
        """Which requests could finish, alone in the pool, bool [requests]. The last output never needs a slot."""
        last_pass = prompt_tokens + output_tokens - 1
        fits = (last_pass < self.max_model_len) & (last_pass <= self.usable_tokens)
        return fits & (self.chunked_prefill or last_pass <= self.token_budget)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)
