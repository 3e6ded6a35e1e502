from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import TOLERANCE, exact, make_case, worst

from pagesim.kernels.cpu_cache import write_kv_cpu
from pagesim.kernels.cpu_decode import decode_attention_cpu
from pagesim.kernels.cpu_gather import GROUP_TOKENS, PADDING_TOKENS, group_stops
from pagesim.kernels.cpu_prefill import prefill_attention_cpu
from pagesim.kernels.errors import InputError
from pagesim.kernels.layout import layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots

PLAIN = AttentionOptions(scale=0.125)
SHAPES = {
    "kv_heads": st.integers(1, 3),
    "group": st.integers(1, 4),
    "head_dim": st.sampled_from([64, 80, 128]),
    "block_size": st.sampled_from([1, 5, 8, 16, 32]),
    "dtype": st.sampled_from(list(TOLERANCE)),
    "window": st.none() | st.integers(1, 60),
    "softcap": st.none() | st.floats(1, 50),
    "seed": st.integers(0, 99),
}


@given(lengths=st.lists(st.integers(1, 200), min_size=1, max_size=6), **SHAPES)
@settings(max_examples=60, deadline=None)
def test_decode(lengths, kv_heads, group, head_dim, block_size, dtype, window, softcap, seed) -> None:
    case = make_case(
        lengths,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        dtype=dtype,
        seed=seed,
    )
    options = AttentionOptions(head_dim**-0.5, window, softcap)
    expected = exact(case, options)
    assert worst(decode_attention_cpu(case.query, case.cache, case.sequences, options), expected) <= TOLERANCE[dtype]
    assert (
        worst(decode_attention_cpu(case.query, case.twin, case.twin_sequences, options), expected) <= TOLERANCE[dtype]
    )


@given(pairs=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 70)), min_size=1, max_size=4), **SHAPES)
@settings(max_examples=40, deadline=None)
def test_prefill(pairs, kv_heads, group, head_dim, block_size, dtype, window, softcap, seed) -> None:
    case = make_case(
        [prefix + count for prefix, count in pairs],
        counts=[count for _, count in pairs],
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        dtype=dtype,
        seed=seed,
    )
    options = AttentionOptions(head_dim**-0.5, window, softcap)
    expected = exact(case, options)
    assert worst(prefill_attention_cpu(case.query, case.cache, case.chunks, options), expected) <= TOLERANCE[dtype]
    assert worst(prefill_attention_cpu(case.query, case.twin, case.twin_chunks, options), expected) <= TOLERANCE[dtype]


def test_a_batch_in_several_groups() -> None:
    """Lengths far enough apart that padding them to one width would cost more than another group."""
    case = make_case([3000, 1, 2990, 1500, 17, 16], dtype=torch.float32)
    assert [len(gather.lengths) for gather in case.sequences.gathers.groups] == [1, 1, 1, 3]
    output = decode_attention_cpu(case.query, case.cache, case.sequences, PLAIN)
    assert worst(output, exact(case, PLAIN)) <= TOLERANCE[torch.float32]


@given(st.lists(st.integers(1, 300), max_size=40), st.sampled_from([1, 16, 128]))
def test_groups_cover_the_batch_and_pad_no_more_than_allowed(counts: list[int], block_size: int) -> None:
    counts = sorted(counts, reverse=True)
    stops = group_stops(counts, block_size)
    begin = 0
    for stop in stops:
        group = counts[begin:stop]
        assert group, "no group is empty"
        assert sum(group[0] - count for count in group) * block_size <= PADDING_TOKENS
        assert len(group) == 1 or group[0] * len(group) * block_size <= GROUP_TOKENS
        begin = stop
    assert begin == len(counts)


def test_an_empty_batch() -> None:
    case = make_case([])
    assert decode_attention_cpu(case.query, case.cache, case.sequences, PLAIN).shape == (0, 4, 64)
    assert prefill_attention_cpu(case.query, case.cache, case.chunks, PLAIN).shape == (0, 4, 64)


def test_write_then_decode_sees_the_new_token() -> None:
    """What the engine does each step: K and V of the new token into its slot, then attention over all of them."""
    case = make_case([21])
    before = decode_attention_cpu(case.query, case.cache, case.sequences, PLAIN)
    block = int(case.sequences.host_table[0, 1])
    slots = Slots.of([block * 16 + 4], case.sequences.layout, "cpu")
    key, value = torch.full((2, 1, 2, 64), 3.0)
    write_kv_cpu(key, value, case.cache, slots)
    case.keys[0][20], case.values[0][20] = key[0], value[0]
    after = decode_attention_cpu(case.query, case.cache, case.sequences, PLAIN)
    assert not torch.equal(before, after)
    assert worst(after, exact(case, PLAIN)) <= TOLERANCE[torch.float32]


def test_one_layer_of_a_larger_pool_is_read_where_it_lies() -> None:
    case = make_case([21, 40, 7])
    pool = torch.full((len(case.cache), 3, *case.cache.shape[1:]), float("nan"))
    pool[:, 1] = case.cache
    layer = pool[:, 1]
    sequences = Sequences.paged(case.sequences.host_table, [21, 40, 7], layout_of(layer, 2), "cpu")
    expected = decode_attention_cpu(case.query, case.cache, case.sequences, PLAIN)
    assert torch.equal(decode_attention_cpu(case.query, layer, sequences, PLAIN), expected)


def test_masks_are_kept_for_each_window() -> None:
    """Layers with and without a window share a step's gathers, and each gets its own answer again."""
    case = make_case([50, 33])
    windowed = AttentionOptions(scale=0.125, window=9)
    for options in (PLAIN, windowed, PLAIN, windowed):
        output = decode_attention_cpu(case.query, case.cache, case.sequences, options)
        assert worst(output, exact(case, options)) <= TOLERANCE[torch.float32]
    (gather,) = case.sequences.gathers.groups
    assert set(gather.masks) == {(None, torch.float32), (9, torch.float32)}


def test_a_cache_of_another_layout_is_refused() -> None:
    case = make_case([21])
    other = torch.zeros(len(case.cache) + 1, 2, 16, 128)
    assert layout_of(other, 2) != case.sequences.layout
    with pytest.raises(InputError, match="layout"):
        decode_attention_cpu(case.query, other, case.sequences, PLAIN)
