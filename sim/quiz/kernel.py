"""The kernel's address line: which bytes of the cache a decode step reads, for which head, tile by tile.

`sim` knows no kernels: the account that the answers are read off, `pagesim.kernels.account`, is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pagesim.sim.quiz import operations as o
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Blank, Exercise, Question
from pagesim.sim.quiz.wording import counted, listed

ACCEPTED = "the block table: a different block number for each block of the sequence, like 5,2,9"
MOST_BLOCK = 2**31 - 1  # block tables are int32
POOL_TIMES = 3  # the table is drawn out of a pool so many times as large


class Account(Protocol):
    """What is asked of `pagesim.kernels.account`."""

    @property
    def Decode(self) -> Callable[..., Any]:  # noqa: N802
        """The sizes of a decode step, checked."""

    def first_byte(
        self, decode: Any, table: tuple[int, ...], position: int, kv_head: int = 0, is_value: bool = False
    ) -> int:
        """Where K, or V, of a position and KV head starts."""

    def walk(self, decode: Any, table: tuple[int, ...]) -> Iterator[Any]:
        """The tiles of one program."""

    def total(self, decode: Any, tiles: list[Any]) -> Any:
        """The whole step."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Where do K and V of a token lie, and what does the kernel read on its walk?"""

    NAME: ClassVar[str] = "kernel"
    SEQUENCE: ClassVar[str] = ACCEPTED
    DRAWN: ClassVar[frozenset[str]] = frozenset()

    seq_len: int = parameters.number(40, 1, 4096, "tokens of the sequence that are in the cache")
    block_size: int = parameters.number(16, 1, 4096, "tokens in a block, a multiple of 16")
    tile: int = parameters.number(16, 1, 4096, "positions the kernel walks at a time, a power of two from 16")
    heads: int = parameters.number(4, 1, 1024, "query heads")
    kv_heads: int = parameters.number(2, 1, 1024, "KV heads, each for as many query heads")
    head_dim: int = parameters.number(64, 1, 1024, "numbers in a head")
    item_bytes: int = parameters.number(2, 1, 8, "bytes of a number in the cache")
    lookups: int = parameters.number(3, 0, 100, "positions to find in the cache")
    account: Account = field(kw_only=True)

    def __post_init__(self) -> None:
        parameters.check(self)

    def exercise(self, draws: Draws, explicit: str | None) -> Exercise:
        """One exercise. Raises UsageError on a table that makes no sense, and the account's error on such sizes."""
        decode = self.account.Decode(
            seq_len_tokens=self.seq_len, block_size=self.block_size, tile_tokens=self.tile, num_layers=1,
            num_heads=self.heads, num_kv_heads=self.kv_heads, head_dim=self.head_dim, item_bytes=self.item_bytes,
        )  # fmt: skip
        of_lookups, blocks = Draws(draws.bits()), decode.num_blocks
        table = tuple(draws.sample(blocks, POOL_TIMES * blocks)) if explicit is None else _parsed(explicit, blocks)
        tiles = list(self.account.walk(decode, table))
        questions = [self._strides(decode)]
        for position in of_lookups.sample(min(self.lookups, self.seq_len), self.seq_len):
            questions.append(self._lookup(decode, table, position, of_lookups.between(0, self.heads - 1)))
        kv_head = of_lookups.between(0, self.kv_heads - 1)
        questions += [self._tile(decode, table, tile, number, kv_head) for number, tile in enumerate(tiles)]
        questions.append(self._step(decode, tiles))
        return Exercise(",".join(map(str, table)), self._given(table), tuple(questions))

    def _given(self, table: tuple[int, ...]) -> tuple[str, ...]:
        return (
            f"A decode step of one sequence of {counted(self.seq_len, 'token')}, in one layer. Its cache is one array, "
            "[blocks, 2, block_size, kv_heads * head_dim] = "
            f"[.., 2, {self.block_size}, {self.kv_heads * self.head_dim}], row by row, numbers of "
            f"{counted(self.item_bytes, 'byte')}: a block holds K of its tokens, then V of them.",
            f"Block table: {listed(table)}. An entry is 4 bytes.",
            f"{counted(self.heads, 'query head')} share {counted(self.kv_heads, 'KV head')}, as many to each, in "
            "order. "
            f"A program for each KV head walks the positions in tiles of {self.tile}. Bytes [a, b) count from the "
            "start of the array.",
        )

    def _strides(self, decode: Any) -> Question:
        slot, block, width = decode.slot_bytes, decode.block_bytes, self.kv_heads * self.head_dim
        return Question(
            "The strides, in bytes.",
            _blanks(
                ("slot_stride", "from a token's K to the next token's in the same block", slot),
                ("value_offset", "from a token's K to its V", block // 2),
                ("block_stride", "from a block to the next", block),
                ("group", "query heads that share a KV head", decode.group),
            ),
            (
                f"slot: {self.kv_heads} * {self.head_dim} = {width} numbers of {self.item_bytes} bytes: {slot}",
                f"V lies behind K of all {self.block_size} tokens of a block: {self.block_size} * {slot} = "
                f"{block // 2}",
                f"block: K and V, 2 * {block // 2} = {block}",
                f"group: {self.heads} / {self.kv_heads} = {decode.group}",
            ),
        )

    def _lookup(self, decode: Any, table: tuple[int, ...], position: int, head: int) -> Question:
        kv_head = head // decode.group
        entry, offset = divmod(position, self.block_size)
        key = self._bytes(decode, table, position, kv_head, False)
        value = self._bytes(decode, table, position, kv_head, True)
        wide = self.head_dim * self.item_bytes
        return Question(
            f"What does query head {head} read of position {position}?",
            (
                *_blanks(("kv_head", "KV head", kv_head), ("block", "block", table[entry]),
                         ("offset", "offset in the block", offset)),
                _span("key_bytes", "its K", key),
                _span("value_bytes", "its V", value),
            ),
            (
                f"KV head {head} // {decode.group} = {kv_head}",
                f"entry {position} // {self.block_size} = {entry}: block {table[entry]}; offset {position} % "
                f"{self.block_size} = {offset}",
                f"K: {table[entry]} * {decode.block_bytes} + {offset} * {decode.slot_bytes} + {kv_head} * {wide} = "
                f"{key[0]}, and {self.head_dim} * {self.item_bytes} = {wide} bytes from there",
                f"V: {decode.block_bytes // 2} further: {key[0]} + {decode.block_bytes // 2} = {value[0]}",
            ),
        )  # fmt: skip

    def _tile(self, decode: Any, table: tuple[int, ...], tile: Any, number: int, kv_head: int) -> Question:
        first, last = tile.first_position, tile.first_position + tile.num_tokens - 1
        spans = [self._bytes(decode, table, position, kv_head, False) for position in (first, last)]
        wide, head = self.head_dim * self.item_bytes, kv_head * self.head_dim * self.item_bytes
        assert tile.first_byte + head == spans[0][0], tile
        apart = f", {wide} of each slot: the rest of it is the other KV heads'" if self.kv_heads > 1 else ""
        lines = [
            f"position {position}: {table[position // self.block_size]} * {decode.block_bytes} + "
            f"{position % self.block_size} * {decode.slot_bytes} + {head} = {span[0]}"
            for position, span in zip((first, last), spans, strict=True)
        ]
        return Question(
            f"Tile {number} of the program of KV head {kv_head}.",
            (
                Blank("positions", "positions, first and last", [first, last], f"{first} to {last}"),
                Blank("blocks", "blocks it touches, in order", list(tile.blocks), listed(tile.blocks)),
                _span("first_key_bytes", "K of its first position", spans[0]),
                _span("last_key_bytes", "K of its last position", spans[1]),
                *_blanks(
                    ("kv_bytes", "bytes of K and V read in all", tile.kv_bytes),
                    ("lookups_by_position", "entries of the table read, if each position reads its own",
                     tile.lookups_by_position),
                    ("lookups_by_block", "and if one entry serves a block", tile.lookups_by_block),
                ),
            ),
            (
                f"positions {number} * {self.tile} = {first} to {last}: {counted(tile.num_tokens, 'position')}",
                *lines,
                f"K and V: 2 * {tile.num_tokens} * {wide} = {tile.kv_bytes} bytes{apart}",
            ),
        )  # fmt: skip

    def _step(self, decode: Any, tiles: list[Any]) -> Question:
        step, wide = self.account.total(decode, tiles), self.head_dim * self.item_bytes
        return Question(
            "The whole step, all KV heads of this layer.",
            _blanks(
                ("kv_bytes", "bytes of K and V read", step.kv_bytes),
                ("table_reads_by_position", "entries of the table read, each position its own",
                 step.table_reads_by_position),
                ("table_reads_by_block", "and one for each block of a tile", step.table_reads_by_block),
                ("multiply_adds", "multiply-adds, scores and values", step.multiply_adds),
                ("table_bytes", "bytes of the table itself", step.table_bytes),
            ),
            (
                f"K and V of each token and KV head: 2 * {self.seq_len} * {self.kv_heads} * {wide} = {step.kv_bytes}",
                f"entries: {self.kv_heads} * {self.seq_len} = {step.table_reads_by_position}, or {self.kv_heads} * "
                f"{sum(tile.lookups_by_block for tile in tiles)} = {step.table_reads_by_block}",
                f"multiply-adds: 2 * {self.heads} * {self.seq_len} * {self.head_dim} = {step.multiply_adds}",
                f"the table: {decode.num_blocks} * 4 = {step.table_bytes}",
            ),
        )  # fmt: skip

    def _bytes(
        self, decode: Any, table: tuple[int, ...], position: int, kv_head: int, is_value: bool
    ) -> tuple[int, int]:
        first = self.account.first_byte(decode, table, position, kv_head, is_value)
        return first, first + self.head_dim * self.item_bytes


def _blanks(*asked: tuple[str, str, int]) -> tuple[Blank, ...]:
    return tuple(Blank(key, what, value, str(value)) for key, what, value in asked)


def _span(key: str, what: str, span: tuple[int, int]) -> Blank:
    return Blank(key, f"{what}, bytes [a, b)", list(span), f"[{span[0]}, {span[1]})")


def _parsed(explicit: str, blocks: int) -> tuple[int, ...]:
    found: list[int] = []
    for place, part in enumerate(explicit.split(","), start=1):
        word = part.strip()
        if not (word.isascii() and word.isdigit()) or len(word) > 10 or int(word) > MOST_BLOCK or int(word) in found:
            raise o.refused(place, word, ACCEPTED)
        found.append(int(word))
    if len(found) != blocks:
        raise o.refused(len(found), part.strip(), f"as many blocks as the sequence has, {blocks}")
    return tuple(found)
