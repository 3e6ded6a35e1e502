"""What the block table costs in compiled code, for cards that need not be there: each kernel beside its twin.

Compiled as launched, with the arguments typed and aligned as the wrappers pass them. No time is measured here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import torch
import triton

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.bench_cases import ITEM_BYTES, Heads
from pagesim.kernels.compile import Compiled, compile_for
from pagesim.kernels.decode import decode_constants
from pagesim.kernels.decode_grouped_kernel import decode_grouped_kernel
from pagesim.kernels.decode_one_head_kernel import decode_one_head_kernel
from pagesim.kernels.layout import check_head_dim
from pagesim.kernels.prefill import prefill_constants
from pagesim.kernels.prefill_kernel import prefill_kernel
from pagesim.kernels.settings import (
    Body,
    Card,
    DecodeLaunch,
    DecodeShape,
    PrefillLaunch,
    decode_launch,
    num_stages,
    prefill_launch,
    settings_for,
)

NO_TIME = (
    "No time was measured. These are counts from compiled code, and a count is not a time: what paging costs on a "
    "card, and whether decode reaches 85% of its copy bandwidth, stays open until this runs on one."
)
CAPABILITIES = (75, 80, 90)
STRIDES = {"block_stride": "i32", "value_stride": "i32", "slot_stride": "i32"}
COMMON = {"score_factor": "fp32", "cap_factor": "fp32", "window": "i32", "table_stride": "i32"}
HEADS = {"num_heads": "i32", "group": "i32"}


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled decode kernel: where it was compiled for, how, and what came out."""

    capability: int
    launch: DecodeLaunch
    addressing: Addressing
    tiles_in_flight: int
    compiled: Compiled


def account(shape: DecodeShape, dtype: str, capabilities: tuple[int, ...] = CAPABILITIES) -> list[Variant]:
    """Decode compiled for each capability, with nothing in flight and as tuned, in each addressing."""
    variants = []
    for capability in capabilities:
        tuned = settings_for(capability).tiles_in_flight
        for tiles_in_flight in sorted({0, tuned}):
            variants += [decode_variant(capability, shape, dtype, a, tiles_in_flight) for a in Addressing]
    return variants


def decode_variant(
    capability: int, shape: DecodeShape, dtype: str, addressing: Addressing, tiles_in_flight: int
) -> Variant:
    """One decode kernel, at the tile that a lookup per block allows, so that all three addressings are of one tile."""
    launch = decode_launch(Card(capability, 1), shape, Addressing.BY_BLOCK)
    launch = replace(launch, stages=num_stages(tiles_in_flight, addressing))
    return Variant(
        capability, launch, addressing, tiles_in_flight, compile_decode(capability, shape, dtype, addressing, launch)
    )


def compile_decode(
    capability: int,
    shape: DecodeShape,
    dtype: str,
    addressing: Addressing,
    launch: DecodeLaunch,
    *,
    has_window: bool = False,
    has_cap: bool = False,
) -> Compiled:
    """Compile the body that `launch` names. `dtype`: fp16, bf16 or fp32."""
    output = "*fp32" if launch.splits > 1 else f"*{dtype}"
    pointers = {"query_ptr": f"*{dtype}", "cache_ptr": f"*{dtype}", "table_ptr": "*i32", "lengths_ptr": "*i32"}
    results = {"output_ptr": output, "lse_ptr": "*fp32" if launch.splits > 1 else output}
    return compile_for(
        decode_one_head_kernel if launch.body is Body.ONE_HEAD else decode_grouped_kernel,
        capability,
        pointers | results | COMMON | STRIDES | HEADS,
        set(STRIDES),
        decode_constants(shape.head_dim, shape.block_size, addressing, launch, has_window=has_window, has_cap=has_cap),
        warps=launch.warps,
        stages=launch.stages,
    )


def compile_prefill(
    capability: int,
    head_dim: int,
    block_size: int,
    dtype: str,
    addressing: Addressing,
    launch: PrefillLaunch | None = None,
) -> Compiled | None:
    """Compile prefill as launched, or return None where torch's SDPA is what runs."""
    launch = launch or prefill_launch(Card(capability, 1), head_dim, ITEM_BYTES[dtype], block_size, addressing)
    if launch is None:
        return None
    kind = f"*{dtype}"
    pointers = {"query_ptr": kind, "cache_ptr": kind, "table_ptr": "*i32", "lengths_ptr": "*i32", "starts_ptr": "*i32"}
    return compile_for(
        prefill_kernel,
        capability,
        pointers | {"output_ptr": kind} | COMMON | STRIDES | HEADS,
        set(STRIDES),
        prefill_constants(head_dim, block_size, addressing, launch),
        warps=launch.warps,
        stages=launch.stages,
    )


def rows(variants: list[Variant]) -> list[dict[str, object]]:
    """The account as flat rows; `over_twin` is against the contiguous kernel with the same tiles in flight."""
    twins = {(v.capability, v.tiles_in_flight): v for v in variants if not v.addressing.reads_table}
    return [_row(variant, twins[variant.capability, variant.tiles_in_flight]) for variant in variants]


def _row(variant: Variant, twin: Variant) -> dict[str, object]:
    counts, launch = variant.compiled.counts, variant.launch
    return {
        "compute_capability": f"{variant.capability / 10:.1f}",
        "body": launch.body.value,
        "addressing": variant.addressing.name,
        "tiles_in_flight": variant.tiles_in_flight,
        "num_stages": launch.stages,
        "tile": launch.tile,
        "num_warps": launch.warps,
        "registers": counts.registers,
        "stack_bytes": counts.stack_bytes,
        "spill_instructions": counts.spill_instructions,
        "shared_bytes": variant.compiled.shared_bytes,
        "loop_instructions": counts.loop_instructions,
        "loop_instructions_over_twin": counts.loop_instructions - twin.compiled.counts.loop_instructions,
        "loop_table_loads": counts.loop_loads - twin.compiled.counts.loop_loads,
        "loop_mma": counts.loop_mma,
    }


def static_report(heads: Heads, block_sizes: tuple[int, ...]) -> dict[str, object]:
    """The account for 64 sequences of 2,048 tokens, at each block size, and the line that no time is in it."""
    check_head_dim(heads.head_dim)
    found: list[dict[str, object]] = []
    for block_size in block_sizes:
        shape = DecodeShape(64, 2048, heads.num_heads, heads.num_kv_heads, heads.head_dim, block_size, heads.item_bytes)
        capabilities = tuple(c for c in CAPABILITIES if c >= 80 or heads.dtype != "bf16")
        found += [{"block_size": block_size} | row for row in rows(account(shape, heads.dtype, capabilities))]
    return {
        "measured": False,
        "note": NO_TIME,
        "device": {"name": "none, compiled only", "torch": torch.__version__, "triton": triton.__version__},
        "heads": asdict(heads),
        "rows": found,
    }
