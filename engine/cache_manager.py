"""What the scheduler and the runner ask of a cache manager, and the three there are, by name.

Every manager gives out slots of one pool, a tensor of `num_rows` rows of `row_tokens` slots for each layer. Slot =
row * row_tokens + offset. A paged cache has a row for each block, a contiguous one a single row.
"""

from __future__ import annotations

from typing import Protocol

from pagesim.engine.config import EngineConfig
from pagesim.engine.sequence import Sequence


class CacheManager(Protocol):
    """Who owns which slots. It never waits, queues or evicts a sequence: that is the scheduler's business."""

    num_rows: int
    row_tokens: int
    block_size: int  # tokens of what `blocks_used` counts, and of a block in `match`
    num_blocks: int  # of that size in the pool; paged counts its null block in
    is_paged: bool  # sequences are read by their block table; otherwise they are runs of slots from `first_slot` on

    @property
    def blocks_used(self) -> int:
        """Blocks that somebody holds; a shared one counts once."""

    @property
    def max_slots(self) -> int:
        """Slots of the longest sequence that an otherwise empty pool holds."""

    def match(self, sequence: Sequence) -> list[int]:
        """Blocks that already hold the start of the sequence. A look-up: nothing is taken or touched."""

    def admit(self, sequence: Sequence, hit: list[int], stop: int, room: int, keep_free: int) -> bool:
        """Give an empty-handed sequence the `hit` blocks and slots for tokens up to `stop`; False: not now.

        Only if `room` tokens would fit and, besides, `keep_free` blocks stay free.
        """

    def grow(self, sequence: Sequence, start: int, stop: int) -> bool:
        """Make slots for tokens [start, stop), which are written next, private to the sequence; False: none are free.

        On False nothing has changed.
        """

    def free(self, sequence: Sequence) -> None:
        """Take back all that the sequence holds."""

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let the child hold the parent's slots too, up to its computed tokens. Only paged caches can."""

    def take_copies(self) -> tuple[tuple[int, int], ...]:
        """Blocks (source, target) to copy before this step writes: those that had to become private. Asked once."""

    def check(self) -> None:
        """Raise AssertionError, with the state, if a slot is owned twice, leaked, or counted wrongly. O(pool)."""


def make_cache(config: EngineConfig, num_blocks: int, max_model_len: int) -> CacheManager:
    """The manager that `config.cache` names, over a pool of `num_blocks * config.block_size` slots.

    Whether `max_slots` is enough for the model is for the caller to say. Raises MemoryBudgetError if the pool is
    empty: no block beside the null block, or no room for one reservation of `max_model_len` tokens.
    """
    from pagesim.engine.contiguous_cache import ContiguousCache
    from pagesim.engine.paged_cache import PagedCache

    kind, _, fit = config.cache.partition(":")
    if kind == "paged":
        return PagedCache(num_blocks, config.block_size, prefix_caching=config.prefix_caching)
    num_slots = num_blocks * config.block_size
    if kind == "reservation":
        return ContiguousCache(num_slots, reservation=max_model_len)
    return ContiguousCache(num_slots, fit=fit or "first")
