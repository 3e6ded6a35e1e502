"""The correctness half of gpu_check: every kernel, on the device, against float64 and against its contiguous twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from kernel_cases import TOLERANCE, Case, exact, make_case, worst

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.block_copy import copy_blocks
from pagesim.kernels.cpu_cache import copy_blocks_cpu, write_kv_cpu
from pagesim.kernels.decode import decode_attention, decode_shape
from pagesim.kernels.kv_write import write_kv
from pagesim.kernels.layout import layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.prefill import prefill_attention
from pagesim.kernels.runtime import card_of
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.settings import decode_launch, prefill_launch
from pagesim.kernels.slots import Slots

CHUNKS = ((1, 1), (15, 7), (16, 16), (17, 1), (255, 100), (1000, 300))  # length, and how much of it is computed now
SHAPES = ((14, 2, 64), (4, 4, 80), (20, 1, 128), (4, 2, 256))  # heads, KV heads, head_dim
FAR_BLOCKS = 2**20 + 8  # 8 GiB of blocks of 16 in fp16: element offsets pass 2^32
Row = dict[str, Any]


def correctness(
    device: str,
    shapes: tuple[tuple[int, int, int], ...] = SHAPES,
    chunks: tuple[tuple[int, int], ...] = CHUNKS,
    far_blocks: int = FAR_BLOCKS,
) -> Iterator[Row]:
    """One row per check, {"check", "right", ...}; a check that raises is wrong, with the reason."""
    capability = card_of(torch.device(device)).capability
    dtypes = [dtype for dtype in TOLERANCE if dtype is not torch.bfloat16 or capability >= 80]
    lengths, counts = [length for length, _ in chunks], [count for _, count in chunks]
    for heads, kv_heads, head_dim in shapes:
        for dtype in dtypes:
            sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype}
            decoded = make_case(lengths, device=device, **sizes)
            filled = make_case(lengths, counts=counts, device=device, **sizes)
            for options in (AttentionOptions(head_dim**-0.5), AttentionOptions(head_dim**-0.5, window=40, softcap=5.0)):
                about = sizes | {"dtype": str(dtype), "window": options.window, "softcap": options.softcap}
                yield _row("decode", about, partial(check_decode, decoded, options))
                yield _row("prefill", about, partial(check_prefill, filled, options))
    for dtype in dtypes:
        yield _row("kv write", {"dtype": str(dtype)}, partial(check_write, device, dtype))
        yield _row("block copy", {"dtype": str(dtype)}, partial(check_copy, device, dtype))
    yield _row("far blocks", {}, partial(check_far_blocks, device, far_blocks))


def _row(name: str, about: Row, check: Callable[[], Row]) -> Row:
    try:
        return {"check": name} | about | check()
    except Exception as error:
        return {"check": name} | about | {"right": False, "raised": f"{type(error).__name__}: {error}"}


def check_decode(case: Case, options: AttentionOptions) -> Row:
    """As launched by default, whole and split: the worst error over addressings, and equality with the twin."""
    expected = exact(case, options)
    wanted = decode_launch(card_of(case.query.device), decode_shape(case.query, case.sequences), Addressing.BY_BLOCK)
    errors, equal = {}, True
    for splits in (1, 5):
        outputs = [
            decode_attention(
                case.query, cache, sequences, options, addressing=addressing, launch=replace(wanted, splits=splits)
            )
            for addressing, cache, sequences in both(case.cache, case.sequences, case.twin, case.twin_sequences)
        ]
        errors[f"worst_error_{splits}_splits"] = max(worst(output, expected) for output in outputs)
        equal = equal and all(torch.equal(outputs[0], output) for output in outputs)
    return {"right": equal and max(errors.values()) <= TOLERANCE[case.query.dtype], "equals_twin": equal} | errors


def check_prefill(case: Case, options: AttentionOptions) -> Row:
    """The same for prefill; which path ran is in the row."""
    layout = case.sequences.layout
    launch = prefill_launch(
        card_of(case.query.device), layout.head_dim, layout.dtype.itemsize, layout.block_size, Addressing.BY_BLOCK
    )
    results = [
        prefill_attention(case.query, cache, chunks, options, addressing=addressing, launch=launch)
        for addressing, cache, chunks in both(case.cache, case.chunks, case.twin, case.twin_chunks)
    ]
    expected = exact(case, options)
    error = max(worst(output, expected) for output, _ in results)
    equal = all(torch.equal(results[0][0], output) for output, _ in results)
    right = error <= TOLERANCE[case.query.dtype] and equal
    return {"right": right, "equals_twin": equal, "worst_error": error, "path": results[0][1].value}


def both(cache: Any, paged: Any, twin: Any, contiguous: Any) -> list[tuple[Addressing, Any, Any]]:
    """Each addressing with the cache it reads."""
    return [(a, cache, paged) if a.reads_table else (a, twin, contiguous) for a in Addressing]


def check_write(device: str, dtype: torch.dtype) -> Row:
    """Slots all over the pool, against the torch reference."""
    cache = torch.zeros(9, 2, 16, 160, dtype=dtype, device=device)
    expected = cache.clone()
    slots = Slots.of(torch.randperm(9 * 16)[:50], layout_of(cache, 2), device)
    key, value = torch.randn(2, 50, 2, 80, device=device).to(dtype)
    write_kv(key, value, cache, slots)
    write_kv_cpu(key, value, expected, slots)
    return {"right": torch.equal(cache, expected)}


def check_copy(device: str, dtype: torch.dtype) -> Row:
    """Three layers at once, against the torch reference."""
    caches = [torch.randn(9, 2, 16, 160, device=device).to(dtype) for _ in range(3)]
    expected = [cache.clone() for cache in caches]
    pairs = [(0, 5), (3, 1), (0, 8)]
    copy_blocks(caches, pairs)
    copy_blocks_cpu(expected, pairs)
    return {"right": all(torch.equal(a, b) for a, b in zip(caches, expected, strict=True))}


def check_far_blocks(device: str, num_blocks: int) -> Row:
    """Decode from the last blocks of a pool whose offsets pass 32 bits."""
    case = make_case([40], dtype=torch.float16, device=device)
    pool = torch.empty(num_blocks, 2, 16, 128, dtype=torch.float16, device=device)
    table = torch.tensor([[num_blocks - 3, num_blocks - 1, num_blocks - 2]])
    pool[table[0].to(device)] = case.cache[case.sequences.host_table[0, :3].long().to(device)]
    sequences = Sequences.paged(table, [40], layout_of(pool, 2), device)
    options = AttentionOptions(0.125)
    errors = [
        worst(decode_attention(case.query, pool, sequences, options, addressing=addressing), exact(case, options))
        for addressing in (Addressing.BY_POSITION, Addressing.BY_BLOCK)
    ]
    return {"right": max(errors) <= TOLERANCE[torch.float16], "worst_error": max(errors)}
