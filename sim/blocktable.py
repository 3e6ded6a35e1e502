"""What a block table costs: its own bytes, the reads of a decode step, and what a kernel does per tile.

The arithmetic of one kernel: a program per KV head walks the history in tiles and looks up a block number for every
position (the note, "How the kernel reads a block table").
"""

from __future__ import annotations

from dataclasses import dataclass

ENTRY_BYTES = 4  # a block number is an int32
TILE_TOKENS = 16


def table_bytes(tokens: int, block_size: int) -> int:
    """Bytes of the block table of a sequence of `tokens` tokens: one entry for each block."""
    return -(-tokens // block_size) * ENTRY_BYTES


def table_reads(tokens: int, layers: int, kv_heads: int) -> int:
    """Block numbers read in one decode step by one sequence: one per position, layer and KV head."""
    return tokens * layers * kv_heads


@dataclass(frozen=True, slots=True)
class Tile:
    """What one tile of one KV head costs: `head_dim` numbers of `number_bytes`, `queries` query heads to a KV head."""

    head_dim: int
    number_bytes: int
    queries: int
    tokens: int = TILE_TOKENS

    @property
    def table_bytes(self) -> int:
        """Block numbers read, one for each position."""
        return self.tokens * ENTRY_BYTES

    @property
    def cache_bytes(self) -> int:
        """Keys and values read."""
        return 2 * self.tokens * self.head_dim * self.number_bytes

    @property
    def multiply_adds(self) -> int:
        """Scores, then values: every query head against every position, over head_dim, twice."""
        return 2 * self.queries * self.tokens * self.head_dim
