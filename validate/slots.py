"""Where a sequence lies in the engine's pool, read off what its cache manager wrote down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pagesim.engine.contiguous_cache import ContiguousCache

if TYPE_CHECKING:
    from pagesim.engine.cache_manager import CacheManager
    from pagesim.engine.sequence import Sequence


def owned_slots(cache: CacheManager, sequence: Sequence) -> npt.NDArray[np.int64]:
    """The physical slots that `sequence` owns, [n] int64, in the order of its tokens; it holds a place in `cache`."""
    if isinstance(cache, ContiguousCache):
        assert sequence.first_slot is not None
        return np.arange(cache.reservation or sequence.max_slots) + sequence.first_slot
    blocks = np.array(sequence.block_table, np.int64)
    return (blocks[:, None] * cache.row_tokens + np.arange(cache.row_tokens)).ravel()
