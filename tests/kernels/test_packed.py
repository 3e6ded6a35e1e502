"""Where the rows of a packed step lie, against a loop over its tokens."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

import numpy as np

from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import CacheLayout, layout_of
from pagesim.kernels.packed import Packed
from pagesim.kernels.sequences import Sequences, padded_tables


def layout(blocks: int, block_size: int) -> CacheLayout:
    return layout_of(torch.zeros(blocks, 2, block_size, 64), 1)


def tokens(counts: list[int]) -> np.ndarray:
    return np.arange(100, 100 + sum(counts))


def test_a_paged_step_written_out() -> None:
    sequences = Sequences.paged(torch.tensor([[6, 0, 0], [2, 7, 5], [1, 3, 0]]), [4, 9, 6], layout(8, 4), "cpu")
    packed = Packed.of(tokens([1, 1, 3]), sequences, [1, 1, 3], [0, 2])
    assert packed.token_ids.tolist() == [100, 101, 102, 103, 104]
    assert packed.positions.tolist() == [3, 8, 3, 4, 5]
    assert packed.slots.mapping.tolist() == [27, 20, 7, 12, 13]  # block * 4 + offset
    assert packed.rows.tolist() == [0, 4]
    assert packed.decodes and packed.decodes.host_lengths.tolist() == [4, 9]
    assert packed.prefills and packed.prefills.sequences.host_table.tolist() == [[1, 3, 0]]
    assert packed.prefills.host_starts.tolist() == [0, 3]


def test_a_contiguous_step_written_out() -> None:
    sequences = Sequences.contiguous([4, 9, 6], layout(2, 20), "cpu", first_slots=[16, 20, 34])
    packed = Packed.of(tokens([1, 2, 6]), sequences, [1, 2, 6], [1])
    assert packed.positions.tolist() == [3, 7, 8, 0, 1, 2, 3, 4, 5]
    assert packed.slots.mapping.tolist() == [19, 27, 28, 34, 35, 36, 37, 38, 39]
    assert packed.rows.tolist() == [2]
    assert packed.prefills and packed.prefills.host_starts.tolist() == [0, 2, 8]


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("decodes", [0, 1, 5])
@pytest.mark.parametrize("prefills", [0, 1, 4])
def test_every_token_goes_where_a_loop_would_put_it(block_size: int, decodes: int, prefills: int) -> None:
    if not decodes + prefills:
        return
    random = np.random.default_rng(block_size)
    counts = [1] * decodes + [int(count) for count in random.integers(2, 40, prefills)]
    lengths = [count + int(random.integers(0, 50)) for count in counts]
    widths = [-(-length // block_size) for length in lengths]
    blocks = iter(random.permutation(sum(widths)).tolist())
    tables = [[next(blocks) for _ in range(width)] for width in widths]
    sequences = Sequences.paged(padded_tables(tables), lengths, layout(sum(widths), block_size), "cpu")
    asked = list(range(0, len(counts), 2))
    packed = Packed.of(tokens(counts), sequences, counts, asked)
    places = [(s, at) for s, length in enumerate(lengths) for at in range(length - counts[s], length)]
    assert packed.positions.tolist() == [at for _, at in places]
    assert packed.slots.mapping.tolist() == [
        tables[s][at // block_size] * block_size + at % block_size for s, at in places
    ]
    last = [max(row for row, (owner, _) in enumerate(places) if owner == s) for s in asked]
    assert packed.rows.tolist() == last
    assert (len(packed.decodes) if packed.decodes else 0) == decodes
    assert (packed.prefills.num_tokens if packed.prefills else 0) == sum(counts[decodes:])


def test_decodes_come_first() -> None:
    sequences = Sequences.contiguous([4, 9], layout(2, 20), "cpu")
    with pytest.raises(AssertionError, match=r"decodes come first: \[2, 1\]"):
        Packed.of(tokens([2, 1]), sequences, [2, 1], [])


def test_two_sequences_may_not_write_one_slot() -> None:
    sequences = Sequences.paged(torch.tensor([[3, 1], [2, 1]]), [6, 6], layout(4, 4), "cpu")
    with pytest.raises(InputError, match="slot 5 is written twice"):
        Packed.of(tokens([1, 1]), sequences, [1, 1], [0, 1])


def test_a_chunk_is_no_longer_than_its_sequence() -> None:
    sequences = Sequences.contiguous([3], layout(1, 20), "cpu", first_slots=[5])
    with pytest.raises(InputError, match="chunk 0 has 4 tokens; accepted: 1 to its sequence's 3"):
        Packed.of(tokens([4]), sequences, [4], [0])


@pytest.mark.parametrize(("first", "past"), [(0, 3), (0, 1), (1, 3), (2, 2), (0, 9)])
def test_some_of_the_sequences(first: int, past: int) -> None:
    whole = Sequences.paged(torch.tensor([[6, 0], [2, 7], [1, 3]]), [4, 7, 6], layout(8, 4), "cpu")
    some = whole[first:past]
    assert len(some) == len([4, 7, 6][first:past])
    assert some.host_lengths.tolist() == some.lengths.tolist() == [4, 7, 6][first:past]
    assert some.host_table.tolist() == some.table.tolist() == [[6, 0], [2, 7], [1, 3]][first:past]
    assert some.is_paged and some.layout == whole.layout


@pytest.mark.parametrize(
    ("tables", "padded"),
    [
        ([[5], [1, 2, 3], [4, 9]], [[5, 0, 0], [1, 2, 3], [4, 9, 0]]),
        ([[], [7]], [[0], [7]]),
        ([[7, 8]], [[7, 8]]),
    ],
)
def test_tables_of_any_lengths_become_one(tables: list[list[int]], padded: list[list[int]]) -> None:
    assert padded_tables(tables).tolist() == padded
