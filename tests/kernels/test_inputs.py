"""What the wrappers and the batches refuse, each with a line that names the value."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

from kernel_cases import make_case

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.chunks import Chunks
from pagesim.kernels.errors import InputError, UnsupportedError
from pagesim.kernels.launch_checks import check_launch
from pagesim.kernels.layout import check_block_size, check_new_tokens, check_query, layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.settings import Card
from pagesim.kernels.slots import Slots

LAYOUT = layout_of(torch.zeros(8, 2, 16, 128), 2)
TABLE = torch.tensor([[0, 7, 3], [1, 2, 99]])
CARD = Card(80, 108)


def paged(table=TABLE, lengths=(33, 32)) -> Sequences:
    return Sequences.paged(table, list(lengths), LAYOUT, "cpu")


@pytest.mark.parametrize(
    ("cache", "kv_heads", "words"),
    [
        (torch.zeros(8, 3, 16, 128), 2, "shape"),
        (torch.zeros(8, 2, 16), 2, "shape"),
        (torch.zeros(0, 2, 16, 128), 2, "at least one block"),
        (torch.zeros(8, 2, 16, 128), 3, "num_kv_heads is 3"),
        (torch.zeros(8, 2, 16, 128), 0, "num_kv_heads is 0"),
        (torch.zeros(8, 2, 16, 128).long(), 2, "int64"),
        (torch.zeros(8, 2, 128, 16).transpose(2, 3), 2, "contiguous"),
        (torch.zeros(70_000).as_strided((8, 2, 16, 128), (4100, 2048, 128, 1)), 2, "a whole number of halves apart"),
    ],
)
def test_what_is_not_a_cache(cache, kv_heads, words) -> None:
    with pytest.raises(InputError, match=words):
        layout_of(cache, kv_heads)


def test_a_head_dim_without_a_kernel() -> None:
    with pytest.raises(UnsupportedError, match="head_dim is 32; accepted: 64, 80, 96, 128, 256"):
        layout_of(torch.zeros(8, 2, 16, 128), 4)


def test_one_layer_of_a_larger_pool_is_a_cache() -> None:
    pool = torch.zeros(8, 3, 2, 16, 128)
    assert layout_of(pool[:, 1], 2).block_stride == 3 * 2 * 16 * 128


def test_entries_past_the_end_are_not_looked_at() -> None:
    assert len(paged()) == 2
    assert paged().max_length == 33


@pytest.mark.parametrize(
    ("table", "lengths", "words"),
    [
        (TABLE, (33, 33), "entry 2 of sequence 1 is block 99; accepted: 0 to 7"),
        (torch.tensor([[-1, 0, 0], [0, 0, 0]]), (33, 1), "entry 0 of sequence 0 is block -1"),
        (TABLE, (0, 32), "sequence 0 has length 0; accepted: 1 to"),
        (TABLE, (3, -5), "sequence 1 has length -5"),
        (TABLE, (49, 32), "at least 4"),
        (TABLE, (33,), "accepted: \\[1, blocks\\]"),
        (TABLE.double(), (33, 32), "float64"),
        (TABLE[0], (33, 32), "shape"),
    ],
)
def test_bad_tables_and_lengths(table, lengths, words) -> None:
    with pytest.raises(InputError, match=words):
        paged(table, lengths)


def test_lengths_must_be_whole_numbers() -> None:
    with pytest.raises(InputError, match="float32"):
        Sequences.paged(TABLE, torch.tensor([1.0, 2.0]), LAYOUT, "cpu")


@pytest.mark.parametrize(
    ("lengths", "first_slots", "words"),
    [
        ([17], None, "sequence 0 has 17 tokens from slot 0 of row 0"),
        ([1] * 9, None, "sequence 8 .* within one of the 8 rows"),
        ([4, 4], [0, 29], "sequence 1 has 4 tokens from slot 13 of row 1"),
        ([4], [-1], "sequence 0"),
        ([4, 4], [0], "first_slots has shape"),
    ],
)
def test_contiguous_runs_that_do_not_fit(lengths, first_slots, words) -> None:
    with pytest.raises(InputError, match=words):
        Sequences.contiguous(lengths, LAYOUT, "cpu", first_slots=first_slots)


def test_contiguous_runs_may_share_a_row() -> None:
    sequences = Sequences.contiguous([4, 11, 16], LAYOUT, "cpu", first_slots=[16, 20, 112])
    assert sequences.table.tolist() == [[1, 0], [1, 4], [7, 0]]


@pytest.mark.parametrize(
    ("counts", "words"), [([34, 1], "chunk 0 has 34"), ([1, 0], "chunk 1 has 0"), ([1], "counts has shape")]
)
def test_bad_chunks(counts, words) -> None:
    with pytest.raises(InputError, match=words):
        Chunks.of(paged(), counts)


def test_chunks_count_their_tokens() -> None:
    chunks = Chunks.of(paged(), [3, 32])
    assert chunks.num_tokens == 35
    assert chunks.max_count == 32
    assert chunks.host_starts.tolist() == [0, 3, 35]


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ([128], "token 0 goes to slot 128; accepted: 0 to 127"),
        ([3, -1], "token 1"),
        ([3, 4, 3], "slot 3 is written twice"),
    ],
)
def test_bad_slots(mapping, words) -> None:
    with pytest.raises(InputError, match=words):
        Slots.of(mapping, LAYOUT, "cpu")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (torch.zeros(3, 4, 64), "accepted: \\[2, heads, 64\\]"),
        (torch.zeros(2, 3, 64), "multiple of the 2 KV heads"),
        (torch.zeros(2, 4, 80), "accepted: \\[2, heads, 64\\]"),
        (torch.zeros(2, 4, 64).half(), "float16"),
        (torch.zeros(4, 2, 64).transpose(0, 1), "contiguous"),
    ],
)
def test_bad_queries(query, words) -> None:
    with pytest.raises(InputError, match=words):
        check_query(query, LAYOUT, 2)


def test_new_tokens_of_another_shape_or_dtype() -> None:
    cache, good = torch.zeros(8, 2, 16, 128), torch.zeros(5, 2, 64)
    check_new_tokens(good, good, cache, LAYOUT, 5)
    with pytest.raises(InputError, match="value has shape \\[4, 2, 64\\]"):
        check_new_tokens(good, good[:4], cache, LAYOUT, 5)
    with pytest.raises(InputError, match=r"key has shape .* torch.float16"):
        check_new_tokens(good.half(), good, cache, LAYOUT, 5)
    with pytest.raises(InputError, match="key has strides"):
        check_new_tokens(torch.zeros(5, 64, 2).transpose(1, 2), good, cache, LAYOUT, 5)


@pytest.mark.parametrize("block_size", [1, 8, 24, 100])
def test_block_sizes_the_triton_backend_refuses(block_size: int) -> None:
    with pytest.raises(UnsupportedError, match=f"block_size is {block_size}; the Triton backend takes multiples of 16"):
        check_block_size(block_size)


def test_a_launch_is_refused_unless_batch_cache_and_addressing_belong_together() -> None:
    case = make_case([20])
    check_launch(case.query, case.cache, case.sequences, Addressing.BY_BLOCK, CARD)
    with pytest.raises(InputError, match="have a block table"):
        check_launch(case.query, case.cache, case.sequences, Addressing.CONTIGUOUS, CARD)
    with pytest.raises(InputError, match="have no block table"):
        check_launch(case.query, case.twin, case.twin_sequences, Addressing.BY_POSITION, CARD)
    with pytest.raises(InputError, match="layout"):
        check_launch(case.query, case.cache[:1], case.sequences, Addressing.BY_BLOCK, CARD)
    with pytest.raises(InputError, match="all on one device"):
        check_launch(case.query.to("meta"), case.cache, case.sequences, Addressing.BY_BLOCK, CARD)


def test_a_launch_on_small_blocks_or_bf16_on_turing_is_refused() -> None:
    small = make_case([20], block_size=8)
    with pytest.raises(UnsupportedError, match="block_size is 8; the Triton backend takes multiples of 16"):
        check_launch(small.query, small.cache, small.sequences, Addressing.BY_BLOCK, CARD)
    half = make_case([20], dtype=torch.bfloat16)
    with pytest.raises(UnsupportedError, match=r"bfloat16 on compute capability 7\.5"):
        check_launch(half.query, half.cache, half.sequences, Addressing.BY_BLOCK, Card(75, 40))


def test_a_block_that_passes_32_bits_inside_itself_is_refused() -> None:
    """Offsets between blocks are 64-bit; inside one they are not, so a block may not be that large."""
    cache = torch.empty(1, 2, 2**21, 1024, dtype=torch.float16, device="meta")
    sequences = Sequences.paged(torch.tensor([[0]]), [5], layout_of(cache, 8), "meta")
    query = torch.zeros(1, 8, 128, dtype=torch.float16, device="meta")
    with pytest.raises(InputError, match="a block has 4294967296 elements"):
        check_launch(query, cache, sequences, Addressing.BY_BLOCK, CARD)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": float("nan")}, "scale is nan"),
        ({"scale": 1.0, "window": 0}, "window is 0"),
        ({"scale": 1.0, "softcap": -3.0}, "softcap is -3.0"),
    ],
)
def test_bad_options(options, words) -> None:
    with pytest.raises(InputError, match=words):
        AttentionOptions(**options)
