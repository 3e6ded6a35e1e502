"""The kernels compiled, as launched, for cards that are not here: no spill, memory that fits, tensor cores used."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("triton", reason="needs pagesim[engine]")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip(
        "this process interprets; compiling needs one started without TRITON_INTERPRET", allow_module_level=True
    )

from dataclasses import replace

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.block_copy_kernel import block_copy_kernel
from pagesim.kernels.compile import Compiled, compile_for
from pagesim.kernels.decode import decode_constants
from pagesim.kernels.decode_grouped_kernel import decode_grouped_kernel
from pagesim.kernels.decode_one_head_kernel import decode_one_head_kernel
from pagesim.kernels.decode_reduce_kernel import decode_reduce_kernel
from pagesim.kernels.kv_write_kernel import kv_write_kernel
from pagesim.kernels.settings import Card, DecodeShape, decode_launch, settings_for
from pagesim.kernels.static_account import (
    COMMON,
    HEADS,
    ITEM_BYTES,
    STRIDES,
    compile_decode,
    compile_prefill,
    decode_variant,
)

CAPABILITIES = (75, 80, 90)
HALF, INTS = "*fp16", "i32"
WRITE = {"key_ptr": HALF, "value_ptr": HALF, "cache_ptr": HALF, "slots_ptr": "*i64", "key_stride": INTS}
WRITE |= {"source_value_stride": INTS, **STRIDES, "width": INTS}
COPY = {"layers_ptr": "*i64", "like_ptr": HALF, "sources_ptr": "*i64", "targets_ptr": "*i64", "block_stride": INTS}
COPY |= {"num_elements": INTS}
REDUCE = {"partial_ptr": "*fp32", "lse_ptr": "*fp32", "output_ptr": HALF, "num_splits": INTS}
DECODE = {"query_ptr": HALF, "cache_ptr": HALF, "table_ptr": "*i32", "lengths_ptr": "*i32", "output_ptr": HALF}
DECODE |= {"lse_ptr": HALF, **COMMON, **STRIDES, **HEADS}
HEAD_DIMS = (64, 80, 128, 256)


def shape_of(head_dim: int = 64, dtype: str = "fp16", block_size: int = 16) -> DecodeShape:
    """Seven query heads to a KV head, as in the model of the note."""
    return DecodeShape(64, 2048, 14, 2, head_dim, block_size, ITEM_BYTES[dtype])


def check_fits(compiled: Compiled, capability: int) -> None:
    assert compiled.counts.stack_bytes == 0
    assert compiled.counts.spill_instructions == 0
    assert compiled.shared_bytes <= settings_for(capability).max_shared_bytes


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_decode_as_launched(capability: int, head_dim: int) -> None:
    """A card with many multiprocessors: the sequences are split, and the partial results are written in fp32."""
    launch = decode_launch(Card(capability, 132), shape_of(head_dim), Addressing.BY_BLOCK)
    assert launch.splits > 1
    compiled = compile_decode(capability, shape_of(head_dim), "fp16", Addressing.BY_BLOCK, launch)
    check_fits(compiled, capability)
    assert (compiled.counts.loop_mma > 0) == (capability >= 80)


@pytest.mark.parametrize(
    ("capability", "dtype"), [(75, "fp32"), (80, "fp32"), (80, "bf16"), (90, "fp32"), (90, "bf16")]
)
def test_decode_in_other_dtypes(capability: int, dtype: str) -> None:
    shape = shape_of(256, dtype)
    launch = decode_launch(Card(capability, 1), shape, Addressing.BY_BLOCK)
    compiled = compile_decode(capability, shape, dtype, Addressing.BY_BLOCK, launch)
    check_fits(compiled, capability)
    assert (compiled.counts.loop_mma > 0) == (dtype == "bf16"), "fp32 is multiplied in fp32, not in TF32"


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_decode_with_window_and_cap_by_position_in_a_larger_tile(capability: int) -> None:
    shape = shape_of(128)
    launch = decode_launch(Card(capability, 1), shape, Addressing.BY_POSITION)
    compiled = compile_decode(capability, shape, "fp16", Addressing.BY_POSITION, launch, has_window=True, has_cap=True)
    check_fits(compiled, capability)


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(
    ("head_dim", "dtype", "addressing"),
    [
        (64, "fp16", Addressing.BY_BLOCK),
        (64, "fp32", Addressing.BY_BLOCK),
        (128, "fp16", Addressing.BY_POSITION),
        (128, "fp32", Addressing.BY_POSITION),
        (256, "fp32", Addressing.BY_BLOCK),
    ],
)
def test_decode_of_a_large_group(capability: int, head_dim: int, dtype: str, addressing: Addressing) -> None:
    """72 query heads to one KV head: more than a program can hold in its registers."""
    shape = DecodeShape(64, 2048, 72, 1, head_dim, 32, ITEM_BYTES[dtype])
    launch = decode_launch(Card(capability, 132), shape, addressing)
    assert launch.rows < 72
    check_fits(compile_decode(capability, shape, dtype, addressing, launch), capability)


@pytest.mark.parametrize("capability", [75, 80, 86, 90])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, "fp16"), (128, "bf16"), (256, "fp16"), (128, "fp32")])
def test_prefill_as_launched(capability: int, head_dim: int, dtype: str) -> None:
    compiled = compile_prefill(capability, head_dim, 16, dtype, Addressing.BY_POSITION)
    if capability == 75:
        assert compiled is None, "Turing runs torch's SDPA"
        return
    assert compiled is not None
    check_fits(compiled, capability)
    assert (compiled.counts.loop_mma > 0) == (dtype != "fp32")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_other_kernels_compile(capability: int) -> None:
    cases = [
        (kv_write_kernel, WRITE, {"BLOCK_SIZE": 48, "WIDTH": 128}),
        (block_copy_kernel, COPY, {"STEP": 1024}),
        (decode_reduce_kernel, REDUCE, {"HEAD_DIM": 80, "DIM": 128, "STEP": 16}),
    ]
    for kernel, arguments, constants in cases:
        check_fits(compile_for(kernel, capability, arguments, set(), constants, warps=4, stages=1), capability)


@pytest.mark.parametrize("capability", [75, 80])
def test_sizes_of_one_are_compiled_in_as_triton_does_at_a_launch(capability: int) -> None:
    """One query head to a KV head, and a block table one entry wide."""
    shape = shape_of()
    launch = decode_launch(Card(capability, 1), shape, Addressing.BY_BLOCK)
    constants = decode_constants(64, 16, Addressing.BY_BLOCK, launch) | {"group": 1, "table_stride": 1}
    kernel = decode_grouped_kernel if capability >= 80 else decode_one_head_kernel
    arguments = {name: kind for name, kind in DECODE.items() if name not in constants}
    check_fits(compile_for(kernel, capability, arguments, set(), constants, warps=1, stages=1), capability)


def test_the_table_costs_turing_at_most_five_instructions_a_tile() -> None:
    twin, by_position, by_block = (
        decode_variant(75, shape_of(), "fp16", addressing, 0).compiled.counts for addressing in Addressing
    )
    assert 0 < by_block.loop_instructions - twin.loop_instructions <= 5
    assert by_block.loop_loads == twin.loop_loads + 1
    assert by_position.loop_instructions - twin.loop_instructions > 5
    assert by_position.loop_loads > by_block.loop_loads


@pytest.mark.parametrize("capability", [80, 90])
def test_the_tuned_pair_keeps_as_many_tiles_in_flight(capability: int) -> None:
    """Then shared memory differs by the block numbers alone, and the pair isolates the table."""
    tiles = settings_for(capability).tiles_in_flight
    twin, paged = (
        decode_variant(capability, shape_of(), "fp16", addressing, tiles).compiled
        for addressing in (Addressing.CONTIGUOUS, Addressing.BY_BLOCK)
    )
    assert 0 <= paged.shared_bytes - twin.shared_bytes <= 64
    assert paged.counts.loop_loads == twin.counts.loop_loads + 1


def test_a_kernel_that_spills_is_seen() -> None:
    """The check can fail: tiles of 64 on one warp do not fit the registers."""
    shape = shape_of(128, block_size=64)
    launch = replace(decode_launch(Card(80, 1), shape, Addressing.BY_BLOCK), tile=64, warps=1)
    counts = compile_decode(80, shape, "fp16", Addressing.BY_BLOCK, launch).counts
    assert counts.spill_instructions > 0
    assert counts.stack_bytes > 0
