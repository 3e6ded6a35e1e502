"""What tells a block from every other: a hash of its tokens and of all that comes before them.

The hash of a full block is H(hash of the block before it, its token ids); the first has the request's salt and adapter
before it, which the chain carries on. Equal hashes therefore mean equal prefixes, up to a collision of a 256-bit
cryptographic hash. A partial block has none.
"""

from __future__ import annotations

from array import array
from hashlib import sha256

from pagesim.engine.sequence import Sequence


def extend_hashes(sequence: Sequence, block_size: int) -> list[bytes]:
    """The hashes of all full blocks of `sequence.tokens`, after making those that are missing."""
    hashes, tokens = sequence.block_hashes, sequence.tokens
    num_full = len(tokens) // block_size
    if len(hashes) < num_full:
        parent = hashes[-1] if hashes else root_hash(sequence.salt, sequence.adapter)
        for start in range(len(hashes) * block_size, num_full * block_size, block_size):
            parent = sha256(parent + array("q", tokens[start : start + block_size]).tobytes()).digest()
            hashes.append(parent)
    return hashes


def root_hash(salt: str | None, adapter: str | None) -> bytes:
    """What stands before the first block. None is a value of its own, unlike any string."""
    return sha256(repr((salt, adapter)).encode()).digest()
