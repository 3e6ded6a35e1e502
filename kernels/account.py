"""One decode step, tile by tile: what the attention kernel reads and multiplies. Plain arithmetic, no torch, no card.

Counts are of positions the sequence has; what the hardware merges or repeats is left out, and so is time: a load and a
multiply-add are not commensurable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from pagesim.kernels.errors import InputError, UnsupportedError

BLOCK_MULTIPLE = 16
BLOCK_NUMBER_BYTES = 4  # block tables are int32


@dataclass(frozen=True, slots=True)
class Decode:
    """One sequence's decode step on one model. The defaults are the note's: Qwen2.5-0.5B in half precision.

    `tile_tokens`: positions the kernel walks at a time; one program of it serves one KV head of one layer.
    Raises InputError or UnsupportedError on a size that makes no sense.
    """

    seq_len_tokens: int = 2000
    block_size: int = 16
    tile_tokens: int = 16
    num_layers: int = 24
    num_heads: int = 14
    num_kv_heads: int = 2
    head_dim: int = 64
    item_bytes: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise InputError(f"{field.name} is {value}; accepted: at least 1")
        if self.block_size % BLOCK_MULTIPLE:
            raise UnsupportedError(
                f"block_size is {self.block_size}; the Triton backend takes multiples of {BLOCK_MULTIPLE}"
            )
        if self.tile_tokens < BLOCK_MULTIPLE or self.tile_tokens & (self.tile_tokens - 1):
            raise InputError(f"tile_tokens is {self.tile_tokens}; accepted: a power of two, at least {BLOCK_MULTIPLE}")
        if self.num_heads % self.num_kv_heads:
            raise InputError(
                f"num_heads is {self.num_heads}; accepted: a multiple of num_kv_heads, {self.num_kv_heads}"
            )

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def num_blocks(self) -> int:
        """Entries of the sequence's block table."""
        return -(-self.seq_len_tokens // self.block_size)

    @property
    def slot_bytes(self) -> int:
        """K, or V, of one token in one layer, all KV heads: the slot stride."""
        return self.num_kv_heads * self.head_dim * self.item_bytes

    @property
    def block_bytes(self) -> int:
        """One block in one layer, K and V: the block stride."""
        return 2 * self.block_size * self.slot_bytes


@dataclass(frozen=True, slots=True)
class Tile:
    """What one program does in one pass of its loop, for one KV head of one layer.

    `blocks`: the physical blocks it touches. `first_byte`: where K of its first position starts in the layer's tensor,
    for KV head 0. `lookups_by_position`: block numbers read when each position reads its own; `lookups_by_block`: when
    one lookup serves a block. `kv_bytes`: K and V. `multiply_adds`: scores, then values.
    """

    first_position: int
    num_tokens: int
    blocks: tuple[int, ...]
    first_byte: int
    lookups_by_position: int
    lookups_by_block: int
    kv_bytes: int
    multiply_adds: int

    @property
    def block_number_bytes(self) -> int:
        """Bytes of block numbers, when each position reads its own."""
        return self.lookups_by_position * BLOCK_NUMBER_BYTES


@dataclass(frozen=True, slots=True)
class Step:
    """Totals of a decode step for one sequence: all tiles, KV heads and layers. `table_bytes`: the table itself."""

    num_tiles: int
    table_reads_by_position: int
    table_reads_by_block: int
    kv_bytes: int
    multiply_adds: int
    table_bytes: int


def shuffled_table(decode: Decode, seed: int) -> tuple[int, ...]:
    """A block table as a pool in use might give it: distinct blocks, in no order, from a pool eight times as large."""
    import random

    return tuple(random.Random(seed).sample(range(8 * decode.num_blocks), decode.num_blocks))


def first_byte(decode: Decode, table: tuple[int, ...], position: int, kv_head: int = 0, is_value: bool = False) -> int:
    """Where K, or V, of one position and KV head starts in the layer's tensor: the address line, in bytes.

    [blocks, 2, block_size, kv_heads * head_dim], as `layout` has it: V lies half a block behind K.
    """
    entry, offset = divmod(position, decode.block_size)
    half = decode.block_bytes // 2 if is_value else 0
    head = kv_head * decode.head_dim * decode.item_bytes
    return table[entry] * decode.block_bytes + half + offset * decode.slot_bytes + head


def walk(decode: Decode, table: tuple[int, ...]) -> Iterator[Tile]:
    """The tiles of one program, in the order it walks them. `table`: one physical block for each of `num_blocks`."""
    assert len(table) == decode.num_blocks
    for first in range(0, decode.seq_len_tokens, decode.tile_tokens):
        count = min(decode.tile_tokens, decode.seq_len_tokens - first)
        logical = range(first // decode.block_size, (first + count - 1) // decode.block_size + 1)
        yield Tile(
            first_position=first,
            num_tokens=count,
            blocks=tuple(table[entry] for entry in logical),
            first_byte=first_byte(decode, table, first),
            lookups_by_position=count,
            lookups_by_block=len(logical),
            kv_bytes=2 * count * decode.head_dim * decode.item_bytes,
            multiply_adds=2 * decode.group * count * decode.head_dim,
        )


def total(decode: Decode, tiles: list[Tile]) -> Step:
    """The whole step: every tile once for each KV head of each layer."""
    programs = decode.num_layers * decode.num_kv_heads
    return Step(
        num_tiles=programs * len(tiles),
        table_reads_by_position=programs * sum(tile.lookups_by_position for tile in tiles),
        table_reads_by_block=programs * sum(tile.lookups_by_block for tile in tiles),
        kv_bytes=programs * sum(tile.kv_bytes for tile in tiles),
        multiply_adds=programs * sum(tile.multiply_adds for tile in tiles),
        table_bytes=decode.num_blocks * BLOCK_NUMBER_BYTES,
    )
