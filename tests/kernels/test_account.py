"""The note's account of one decode step, and that the pieces add up for any other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.kernels.account import Decode, shuffled_table, total, walk
from pagesim.kernels.errors import InputError, KernelError


def test_the_notes_tile() -> None:
    """64 B of block numbers, 4 KiB of K and V, 14,336 multiply-adds."""
    decode = Decode()
    tiles = list(walk(decode, shuffled_table(decode, 0)))
    assert {(t.block_number_bytes, t.kv_bytes, t.multiply_adds) for t in tiles} == {(64, 4096, 14_336)}
    assert len(tiles) == 125


def test_the_notes_step() -> None:
    """A sequence of 2,000 tokens has its table read 96,000 times; 2,048 tokens take 128 entries, half a kilobyte."""
    decode = Decode()
    step = total(decode, list(walk(decode, shuffled_table(decode, 0))))
    assert step.table_reads_by_position == 96_000
    assert step.kv_bytes == 2_000 * 12_288
    assert total(Decode(2048), list(walk(Decode(2048), shuffled_table(Decode(2048), 0)))).table_bytes == 512


def test_the_notes_block() -> None:
    """8 KiB in one layer: 4 KiB of keys and another of values."""
    assert Decode().block_bytes == 8192


def test_the_first_byte_is_the_address_line() -> None:
    decode = Decode(seq_len_tokens=40, block_size=32)
    tiles = list(walk(decode, (5, 2)))
    assert [t.first_byte for t in tiles] == [5 * 16_384, 5 * 16_384 + 16 * 256, 2 * 16_384]
    assert [t.blocks for t in tiles] == [(5,), (5,), (2,)]


def test_a_tile_over_two_blocks_takes_two_lookups() -> None:
    decode = Decode(seq_len_tokens=70, tile_tokens=64)
    first, last = walk(decode, (9, 8, 7, 6, 5))
    assert first.blocks == (9, 8, 7, 6)
    assert first.lookups_by_block == 4
    assert last.num_tokens == last.lookups_by_position == 6


@given(
    st.builds(
        Decode,
        seq_len_tokens=st.integers(1, 3_000),
        block_size=st.sampled_from([16, 48, 128]),
        tile_tokens=st.sampled_from([16, 32, 128]),
        num_heads=st.just(8),
        num_kv_heads=st.sampled_from([1, 2, 8]),
        head_dim=st.sampled_from([64, 96]),
    )
)
def test_tiles_add_up_to_the_sequence(decode: Decode) -> None:
    tiles = list(walk(decode, shuffled_table(decode, 1)))
    step = total(decode, tiles)
    programs = decode.num_layers * decode.num_kv_heads
    assert sum(t.num_tokens for t in tiles) == decode.seq_len_tokens
    assert [b for k, t in enumerate(tiles) for b in t.blocks if k == 0 or b not in tiles[k - 1].blocks] == list(
        shuffled_table(decode, 1)
    )
    assert step.table_reads_by_position == programs * decode.seq_len_tokens
    assert step.table_reads_by_block <= step.table_reads_by_position
    assert step.kv_bytes == decode.num_layers * 2 * decode.slot_bytes * decode.seq_len_tokens


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"seq_len_tokens": 0}, "seq_len_tokens is 0"),
        ({"block_size": 8}, "block_size is 8; the Triton backend takes multiples of 16"),
        ({"tile_tokens": 24}, "tile_tokens is 24"),
        ({"num_heads": 15}, "num_heads is 15"),
    ],
)
def test_bad_sizes(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(KernelError, match=words):
        Decode(**sizes)


def test_errors_are_of_one_tree() -> None:
    assert issubclass(InputError, KernelError)
