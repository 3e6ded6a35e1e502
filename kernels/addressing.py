"""How a kernel finds the slot of a position: the one line in which a paged cache differs from a contiguous one."""

from __future__ import annotations

from enum import IntEnum


class Addressing(IntEnum):
    """The address of position i of a sequence; a compile-time constant of every attention kernel.

    CONTIGUOUS    base of the sequence + i * slot stride: no table. The twin that isolates the price of the others.
    BY_POSITION   table[i // block_size] looked up by each position for itself, as the engine of the note does.
    BY_BLOCK      one lookup serves a whole tile, which must therefore lie inside one block.
    """

    CONTIGUOUS = 0
    BY_POSITION = 1
    BY_BLOCK = 2

    @property
    def reads_table(self) -> bool:
        """Whether a block table is read at all."""
        return self is not Addressing.CONTIGUOUS


def largest_tile(block_size: int, wanted: int) -> int:
    """The largest power of two, at most `wanted`, that divides `block_size`: such a tile lies inside one block."""
    return min(wanted, block_size & -block_size)
