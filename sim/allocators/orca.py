"""Orca (Pow2), a baseline of the PagedAttention paper: what is still to come is taken for the next power of two.

Kwon et al., SOSP 2023, 6.1: an answer of 25 tokens gets 32 slots, and the buddy system then finds a run for prompt and
answer together. The paper's other two baselines are here under other names: Orca (Oracle) is `Buddy`, and Orca (Max) is
`Reservation`, which lies where a buddy system would put a context that is a power of two.
"""

from __future__ import annotations

from pagesim.sim.allocators.buddy import Buddy


class OrcaPow2(Buddy):
    """Room for the tokens of now and, rounded up to a power of two, for those to come; no more than the context.

    That the context bounds it the paper does not say; `OrcaPow2Unbounded` leaves it out.
    """

    @property
    def most_asked(self) -> int:
        """The most slots that one request asks for."""
        return self.largest_request_tokens

    def asked(self, tokens: int, final_tokens: int) -> int:
        """Slots that a request asks for, of which the buddy system makes a power of two."""
        coming = final_tokens - tokens
        rounded = 1 << (coming - 1).bit_length() if coming else 0
        return min(tokens + rounded, self.most_asked)

    def place(self, owner: int, tokens: int, final_tokens: int) -> bool:
        """A run for what it asks for."""
        return super().place(owner, tokens, self.asked(tokens, final_tokens))


class OrcaPow2Unbounded(OrcaPow2):
    """The same, when the rounded answer may pass the context."""

    @property
    def most_asked(self) -> int:
        """The largest power of two in the pool."""
        return 1 << self.pool.capacity_tokens.bit_length() - 1
