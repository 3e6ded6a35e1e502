"""How the blocks of a cache begin: which of them share their first tokens with a block that is not there.

A trace tells text by one id for every `each` tokens. Blocks behind the same prefix that lie in one id are equal or have
nothing in common; so only those are written down here in which one id ends and another begins, or the prompt ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pagesim.sim.serving.chains import HashChains
from pagesim.sim.trace import Ints, Trace


@dataclass(slots=True)
class _Node:
    """Blocks that begin alike up to some id: `through`: that all hold to its end; `tails`: in which the prompt ends
    before that, how many after how many tokens of the block."""

    name: int
    through: int = 0
    tails: dict[int, int] = field(default_factory=dict)


class Beginnings:
    """A tree of beginnings, with a branch behind each block; blocks are put in and taken out by slot."""

    def __init__(self, trace: Trace, chains: HashChains, block_size: int) -> None:
        assert trace.hash_ids is not None and trace.hash_block_tokens is not None
        self._ids, self._each, self._size = trace.hash_ids, trace.hash_block_tokens, block_size
        self._prompt: list[int] = trace.prompt_tokens.tolist()
        self._chains = chains
        self._nodes: dict[tuple[object, int], _Node] = {}
        self._paths: dict[int, list[tuple[_Node, int | None]]] = {}  # by slot: where it is written down

    def put(self, slot: int, row: int, block: int, keys: Ints) -> None:
        """Block number `block` of `row`, whose chain is `keys`, lies in `slot` and can be found."""
        size, each, prompt = self._size, self._each, self._prompt[row]
        start, end = block * size, min((block + 1) * size, prompt)
        first, last = start // each, (end - 1) // each
        if first == last and end == start + size:
            return
        ids, parent = self._ids[row][first : last + 1].tolist(), self._parent(row, block, keys)
        path: list[tuple[_Node, int | None]] = []
        for hash_id in ids[:-1]:
            node = self._node(parent, hash_id)
            node.through += 1
            path.append((node, None))
            parent = node.name
        if end < start + size:
            node = self._node(parent, ids[-1])
            node.tails[end - start] = node.tails.get(end - start, 0) + 1
            path.append((node, end - start))
        self._paths[slot] = path

    def drop(self, slot: int) -> None:
        """What lies in `slot` cannot be found any more."""
        for node, tail in self._paths.pop(slot, ()):
            if tail is None:
                node.through -= 1
            else:
                node.tails[tail] -= 1
                if not node.tails[tail]:
                    del node.tails[tail]

    def common(self, row: int, block: int, keys: Ints) -> int:
        """The most first tokens of block `block` of the prompt of `row` that a block written down here shares."""
        each, start = self._each, block * self._size
        length = min(start + self._size, self._prompt[row]) - start
        best, parent = 0, self._parent(row, block, keys)
        first = start // each
        for place, hash_id in enumerate(self._ids[row][first : (start + length - 1) // each + 1].tolist(), first):
            node = self._nodes.get((parent, hash_id))
            if node is None:
                break
            best = max(best, min(length, max(node.tails, default=0)))
            if not node.through:
                break
            best = max(best, min(length, (place + 1) * each - start))
            parent = node.name
        return best

    def _parent(self, row: int, block: int, keys: Ints) -> object:
        return int(keys[block - 1]) if block else self._chains.root(row)

    def _node(self, parent: object, hash_id: int) -> _Node:
        node = self._nodes.get((parent, hash_id))
        if node is None:
            node = self._nodes[parent, hash_id] = _Node(-1 - len(self._nodes))  # keys are 0 and more
        return node
