"""How exactly a count of buffers can be foretold: what allocators add to what they are asked for. Fixed beforehand.

On a CPU a buffer comes in whole pages, with a header; the process itself may grow a little meanwhile. On a card torch
asks the driver for 2 MiB, or 20 MiB, at a time, and cuts smaller buffers out of those (CUDACachingAllocator.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE_BYTES = 4096
MIB = 2**20
SMALL_BYTES, LARGE_BYTES = MIB, 10 * MIB  # torch: buffers up to the first, and from the second on, are cut otherwise
SMALL_SEGMENT, LARGE_SEGMENT, ROUND = 2 * MIB, 20 * MIB, 2 * MIB
ROUND_SMALL = 512


@dataclass(frozen=True, slots=True)
class Grain:
    """`each_bytes`: at most so much more for each buffer. `once_bytes`: at most so much beside all of them together.

    `model_bytes`: at most so much beside the weights, once they are loaded; `block_bytes`: at most so much for each
    block in the books of an engine.
    """

    each_bytes: int
    once_bytes: int
    model_bytes: int
    block_bytes: int = 256

    def counts(self, room_bytes: int, buffer_bytes: int) -> tuple[int, int]:
        """The least and the most buffers that a room of `room_bytes` can turn out to hold."""
        least = max(0, room_bytes - self.once_bytes) // (buffer_bytes + self.each_bytes)
        return least, max(0, room_bytes) // buffer_bytes

    def books_bytes(self, num_blocks: int) -> int:
        """At most so much that an engine takes at its start beside weights and cache: tables, and lists of blocks."""
        return self.model_bytes + self.block_bytes * num_blocks


def grain(device: str, buffer_bytes: int, weights_bytes: int) -> Grain:
    """Of buffers of one size, beside such weights."""
    if device == "cpu":
        return Grain(2 * PAGE_BYTES, 2 * MIB, 16 * MIB)
    model_bytes = 64 * MIB + weights_bytes // 10
    if buffer_bytes >= LARGE_BYTES:
        return Grain(-buffer_bytes % ROUND, ROUND, model_bytes)
    segment = SMALL_SEGMENT if buffer_bytes <= SMALL_BYTES else LARGE_SEGMENT
    whole = segment // (buffer_bytes + -buffer_bytes % ROUND_SMALL)
    return Grain(-(-segment // whole) - buffer_bytes, segment, model_bytes)
