from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.kernels.addressing import Addressing, largest_tile
from pagesim.kernels.errors import UnsupportedError
from pagesim.kernels.settings import (
    MAX_SPLITS,
    MIN_TILES_PER_SPLIT,
    SETTINGS,
    Body,
    Card,
    DecodeShape,
    choose_splits,
    decode_launch,
    num_stages,
    prefill_launch,
    settings_for,
)

NOTE = DecodeShape(64, 2048, 14, 2, 64, 16, 2)


def test_every_capability_asked_for_has_a_row_with_a_reason() -> None:
    assert sorted(SETTINGS) == [75, 80, 86, 89, 90]
    assert all(len(row.reason) > 30 for row in SETTINGS.values())


@pytest.mark.parametrize(("capability", "row"), [(75, 75), (80, 80), (87, 86), (90, 90), (100, 90), (120, 90)])
def test_a_card_without_a_row_takes_the_one_before_it(capability: int, row: int) -> None:
    assert settings_for(capability) is SETTINGS[row]


def test_cards_before_turing_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"compute capability 7.0; accepted: 7.5"):
        settings_for(70)


def test_turing_runs_one_head_and_sdpa_ampere_groups_and_our_prefill() -> None:
    assert decode_launch(Card(75, 40), NOTE, Addressing.BY_BLOCK).body is Body.ONE_HEAD
    assert prefill_launch(Card(75, 40), 64, 2, 16, Addressing.BY_POSITION) is None
    grouped = decode_launch(Card(80, 108), NOTE, Addressing.BY_BLOCK)
    assert grouped.body is Body.GROUPED
    assert grouped.rows == 16
    assert prefill_launch(Card(80, 108), 64, 2, 16, Addressing.BY_POSITION) is not None


@pytest.mark.parametrize(
    ("batch", "splits"),
    [
        (1, 16),  # 2 programs: as many splits as leave 4 tiles each (64 tiles of 32)
        (64, 9),  # 128 programs; 132 multiprocessors want 1,056
        (256, 3),
        (528, 1),  # 1,056 programs
        (4096, 1),
    ],
)
def test_splits_fill_an_h200_and_no_more(batch: int, splits: int) -> None:
    shape = DecodeShape(batch, 2048, 14, 2, 64, 32, 2)
    assert decode_launch(Card(90, 132), shape, Addressing.BY_BLOCK).splits == splits


@given(st.integers(1, 10_000), st.integers(1, 5_000), st.integers(1, 200), st.integers(1, 16))
def test_splits_stay_in_bounds_and_each_has_work(programs: int, tiles: int, multiprocessors: int, wanted: int) -> None:
    splits = choose_splits(programs, tiles, Card(90, multiprocessors), wanted)
    assert 1 <= splits <= MAX_SPLITS
    assert splits == 1 or tiles // splits >= MIN_TILES_PER_SPLIT
    assert splits == 1 or programs * (splits - 1) < multiprocessors * wanted, "one split fewer would not fill the card"


@given(
    st.sampled_from([16, 32, 48, 64, 80, 128, 4096]), st.sampled_from([64, 80, 96, 128, 256]), st.sampled_from([2, 4])
)
def test_a_tile_with_one_lookup_lies_inside_a_block(block_size: int, head_dim: int, item_bytes: int) -> None:
    for capability in SETTINGS:
        shape = DecodeShape(8, 500, 8, 2, head_dim, block_size, item_bytes)
        tile = decode_launch(Card(capability, 40), shape, Addressing.BY_BLOCK).tile
        assert block_size % tile == 0
        assert tile >= 16
        assert tile & (tile - 1) == 0


def test_the_paged_kernel_is_given_twice_the_stages() -> None:
    assert [num_stages(3, addressing) for addressing in Addressing] == [4, 7, 7]
    assert [num_stages(0, addressing) for addressing in Addressing] == [1, 1, 1]


@pytest.mark.parametrize(("block_size", "tile"), [(16, 16), (48, 16), (96, 32), (64, 32), (8, 8)])
def test_largest_tile(block_size: int, tile: int) -> None:
    assert largest_tile(block_size, 32) == tile
