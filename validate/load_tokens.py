"""Token ids for loads that come without: a function of who asks and of the place, and of nothing else.

The tokens mean nothing. What matters of them is which prompts begin alike, and that no two others do.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

SHARED, PRIVATE = 1, 2  # streams: ids that prompts share, and prompts that share nothing


def shared_tokens(hash_ids: Iterable[int], block_tokens: int, num_tokens: int, vocab_size: int) -> list[int]:
    """A prompt of `num_tokens`, each `block_tokens` of them made from one hash id, the last id for what remains.

    The same id at the same place gives the same tokens.
    """
    ids = np.fromiter(hash_ids, np.int64).view(np.uint64).repeat(block_tokens)[:num_tokens]
    return _tokens(ids, SHARED, vocab_size)


def private_tokens(owner: int, num_tokens: int, vocab_size: int, seed: int) -> list[int]:
    """A prompt of `num_tokens` that nobody else has."""
    owners = np.full(num_tokens, owner, np.uint64) ^ _mix(np.array([seed & (2**64 - 1)], np.uint64))
    return _tokens(owners, PRIVATE, vocab_size)


def _tokens(keys: Words, stream: int, vocab_size: int) -> list[int]:
    places = np.arange(len(keys), dtype=np.uint64)
    drawn = _mix(_mix(_mix(keys) ^ np.uint64(stream)) ^ places)
    tokens: list[int] = (drawn % np.uint64(vocab_size)).tolist()
    return tokens


def _mix(words: Words) -> Words:
    """splitmix64 (Steele et al., 2014), word by word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
