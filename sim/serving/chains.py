"""Which full blocks of which prompts are the same: numbers for hash chains, without hashing a token.

A block's identity is the whole prefix up to its end, and extras. A trace says what the text is by one id for every
`hash_block_tokens` tokens, which need be neither a multiple nor a divisor of the block size: the prefix up to the end
of block j is known once all ids are that start before that end. So blocks are numbered along a tree of ids.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.trace import Ints, Trace

NO_KEYS: Ints = np.empty(0, np.int64)


class HashChains:
    """Numbers ("keys") of blocks, equal where a prefix cache may take one block for the other.

    Extras: the adapter, and the cache salt, which goes into the first block and is carried on by the chain; both are
    told apart at the root. Prompts of a trace without hash ids have nothing in common with any other.
    """

    def __init__(self, trace: Trace, block_size: int) -> None:
        self._trace = trace
        self._size = block_size
        self.num_keys = 0
        self._child: dict[tuple[object, int], int] = {}  # (node, id) -> node
        self._first_key: list[int] = []  # of each node
        each = trace.hash_block_tokens
        if trace.hash_ids is None or each is None:
            return
        longest = int(trace.prompt_tokens.max()) if len(trace) else 0
        ends = np.arange(-(-longest // each) + 1) * each // block_size  # full blocks once that many ids are known
        self._blocks_before = ends[:-1]
        self._new_blocks: list[int] = np.diff(ends).tolist()
        self._id_of_block = np.repeat(np.arange(len(ends) - 1), np.diff(ends))

    def private(self, count: int) -> Ints:
        """Keys for blocks that are like no others, int64 [count]."""
        first = self.num_keys
        self.num_keys += count
        return np.arange(first, first + count)

    def prompt(self, row: int) -> Ints:
        """Keys of the full blocks of a prompt, in order."""
        trace = self._trace
        count = int(trace.prompt_tokens[row]) // self._size
        if trace.hash_ids is None or count == 0:
            return NO_KEYS
        num_ids = int(self._id_of_block[count - 1]) + 1
        first_keys = self._walk(row, trace.hash_ids[row][:num_ids].tolist())
        shifted = np.array(first_keys, np.int64) - self._blocks_before[:num_ids]
        keys: NDArray[np.int64] = shifted[self._id_of_block[:count]] + np.arange(count)
        return keys

    def after(self, row: int) -> int | None:
        """The key that the block behind the full blocks of a prompt has in a longer prompt of the same ids.

        None if that block does not end within the text that the ids stand for.
        """
        trace, each = self._trace, self._trace.hash_block_tokens
        count = int(trace.prompt_tokens[row]) // self._size
        if trace.hash_ids is None or each is None:
            return None
        ids = trace.hash_ids[row].tolist()
        if (count + 1) * self._size > len(ids) * each:
            return None
        num_ids = int(self._id_of_block[count]) + 1
        first_key = self._walk(row, ids[:num_ids])[-1]
        return first_key + count - int(self._blocks_before[num_ids - 1])

    def root(self, row: int) -> tuple[object, object]:
        """What must be equal besides the text: adapter and salt."""
        trace = self._trace
        salt = None if trace.cache_salt is None else trace.cache_salt[row]
        return (None if trace.adapter is None else trace.adapter[row], salt)

    def _walk(self, row: int, ids: list[int]) -> list[int]:
        """The first key of each node on the way down the tree, growing it where nobody has been."""
        child, first_key = self._child, self._first_key
        node: object = self.root(row)
        way = []
        for depth, hash_id in enumerate(ids):
            edge = (node, hash_id)
            known = child.get(edge)
            if known is None:
                known = child[edge] = len(first_key)
                first_key.append(self.num_keys)
                self.num_keys += self._new_blocks[depth]
            way.append(first_key[known])
            node = known
        return way
