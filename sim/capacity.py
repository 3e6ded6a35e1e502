"""What fits in a pool: reservations, sequences by length, and the waste of the last block.

Places in the cache, not a batch that an engine runs at once: the cap on running sequences and the memory of their
activations are apart. Two limits on the length of one sequence are kept apart too: what vLLM's start-up accepts, which
counts the null block as room, and what can really be served, which does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagesim.sim.errors import UsageError
from pagesim.sim.geometry import CacheGeometry
from pagesim.sim.lengths import LengthDistribution, weighted_sum
from pagesim.sim.pool import PoolGeometry


@dataclass(frozen=True, slots=True)
class Tail:
    """The empty end of the last block at one block size, in expectation over a length distribution.

    `tokens_mean`: E[(-L) mod B]. `share`: of everything held, tail / (mean + tail). `sequences`: room for so many,
    pool / (mean + tail), rounded down. `tokens_most`: B - 1, which bounds any one sequence.
    """

    block_size: int
    tokens_mean: float
    share: float
    sequences: int
    tokens_most: int


def tail(lengths: LengthDistribution, block_size: int, pool_tokens: int) -> Tail:
    """The tail at `block_size` in a pool of `pool_tokens`. Exact: a sum over the table of probabilities."""
    if block_size < 1:
        raise UsageError(f"block size {block_size}; accepted: 1 or more")
    empty = weighted_sum(-lengths.values % block_size, lengths.probabilities)
    held = lengths.mean + empty
    return Tail(block_size, empty, empty / held, int(pool_tokens / held), block_size - 1)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pool holds of sequences whose cache is `cache`, at a context limit of `max_model_len` tokens.

    Sizes are of one rank. Raises UsageError if `max_model_len` is under 1.
    """

    pool: PoolGeometry
    cache: CacheGeometry
    max_model_len: int

    def __post_init__(self) -> None:
        if self.max_model_len < 1:
            raise UsageError(f"--max-model-len {self.max_model_len}; accepted: 1 or more")

    @property
    def reservation_bytes(self) -> int:
        """One contiguous reservation of max_model_len tokens."""
        return self.cache.sequence_bytes(self.max_model_len)

    @property
    def reservations(self) -> int:
        """Contiguous reservations of max_model_len that the pool's bytes hold."""
        return self.pool.pool_bytes // self.reservation_bytes

    def sequences(self, tokens: int) -> int:
        """Sequences of `tokens` tokens each that the whole pool holds in blocks, null block counted as room."""
        return self.pool.pool_bytes // self._held_bytes(tokens)

    def servable_sequences(self, tokens: int) -> int:
        """As `sequences`, of the blocks that sequences can really get."""
        return self._usable_bytes // self._held_bytes(tokens)

    @property
    def max_concurrency(self) -> float:
        """Sequences of max_model_len that the pool holds, as vLLM prints it: a quotient, not rounded down."""
        return self.pool.pool_bytes / self._held_bytes(self.max_model_len)

    @property
    def needed_bytes(self) -> int:
        """Bytes that one sequence of max_model_len takes."""
        return self._held_bytes(self.max_model_len)

    @property
    def starts(self) -> bool:
        """Whether vLLM's start-up check accepts max_model_len: one such sequence in the whole pool."""
        return self.needed_bytes <= self.pool.pool_bytes

    @property
    def servable(self) -> bool:
        """Whether a sequence of max_model_len can really be served: the null block is not to be had."""
        return self.needed_bytes <= self._usable_bytes

    @property
    def largest_max_model_len(self) -> int | None:
        """The longest context limit that start-up accepts, in whole blocks; None: all layers are windowed, any fits."""
        return self.cache.longest(self.pool.pool_bytes, self.pool.block_size)

    @property
    def largest_servable_len(self) -> int | None:
        """The longest sequence that can really be served, in whole blocks; None: any."""
        return self.cache.longest(self._usable_bytes, self.pool.block_size)

    def tails(self, lengths: LengthDistribution, block_sizes: Sequence[int]) -> list[Tail]:
        """The waste of the last block at several block sizes, in a pool of as many tokens."""
        return [tail(lengths, block_size, self.pool.pool_tokens) for block_size in block_sizes]

    @property
    def _usable_bytes(self) -> int:
        return self.pool.usable_blocks * self.pool.bytes_per_block

    def _held_bytes(self, tokens: int) -> int:
        if tokens < 1:
            raise UsageError(f"a sequence of {tokens} tokens; accepted: 1 or more")
        return self.cache.sequence_bytes(tokens, self.pool.block_size)


@dataclass(frozen=True, slots=True)
class BareCard:
    """Contiguous reservations on a card that holds the weights and a CUDA context, and computes nothing.

    An upper bound: it leaves nothing for activations.
    """

    total_bytes: int
    weights_bytes: int
    context_bytes: int
    reservation_bytes: int

    @property
    def reservations(self) -> int:
        """How many fit before the card refuses."""
        return max(0, self.total_bytes - self.weights_bytes - self.context_bytes) // self.reservation_bytes


def equivalent_tokens(concurrency: float, max_model_len: int) -> int:
    """Tokens that a printed maximum concurrency stands for, to the nearest.

    For a hybrid model, trust this rather than the token count in vLLM's log, which up to 0.19 is not
    concurrency x length (issue 40691).
    """
    return round(concurrency * max_model_len)
