"""The engine's attention by the name of who computes it: Triton kernels, or their plain torch twins.

A backend is chosen by name and is what runs: nothing else is run in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pagesim.kernels.addressing import Addressing
from pagesim.kernels.chunks import Chunks
from pagesim.kernels.errors import BackendError
from pagesim.kernels.layout import check_block_size
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.packed import Packed
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.slots import Slots

Caches = Sequence[torch.Tensor]


@dataclass(frozen=True, slots=True)
class Backend:
    """The four operations on a cache, and a layer's attention out of them. `description`: what is printed."""

    name: str
    description: str
    write: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Slots], None]
    decode: Callable[[torch.Tensor, torch.Tensor, Sequences, AttentionOptions], torch.Tensor]
    prefill: Callable[[torch.Tensor, torch.Tensor, Chunks, AttentionOptions], torch.Tensor]
    copy: Callable[[Caches, Sequence[tuple[int, int]]], None]

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cache: torch.Tensor,
        packed: Packed,
        options: AttentionOptions,
    ) -> torch.Tensor:
        """New K and V into their slots, then attention of all rows: decodes to their kernel, prefills to theirs.

        `query`: [T, heads, D]; `key`, `value`: [T, KV heads, D]. Returns [T, heads, D].
        """
        self.write(key, value, cache, packed.slots)
        split = 0 if packed.decodes is None else len(packed.decodes)
        parts = []
        if packed.decodes is not None:
            parts.append(self.decode(query[:split], cache, packed.decodes, options))
        if packed.prefills is not None:
            parts.append(self.prefill(query[split:], cache, packed.prefills, options))
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def backend_named(name: str, device: torch.device, block_size: int) -> Backend:
    """The backend of that name, for caches on `device` in blocks of `block_size` tokens.

    Raises BackendError on a name that is none, or where Triton is not installed or cannot run; UnsupportedError where
    it does not serve such blocks.
    """
    if name == "reference":
        return _reference()
    if name == "triton":
        return _triton(device, block_size)
    raise BackendError(f"backend is {name}; accepted: reference, triton")


def _reference() -> Backend:
    from pagesim.kernels.cpu_cache import copy_blocks_cpu, write_kv_cpu
    from pagesim.kernels.cpu_decode import decode_attention_cpu
    from pagesim.kernels.cpu_prefill import prefill_attention_cpu

    return Backend(
        "reference", "plain torch", write_kv_cpu, decode_attention_cpu, prefill_attention_cpu, copy_blocks_cpu
    )


def _triton(device: torch.device, block_size: int) -> Backend:
    try:
        from pagesim.kernels.block_copy import copy_blocks
        from pagesim.kernels.decode import decode_attention
        from pagesim.kernels.kv_write import write_kv
        from pagesim.kernels.prefill import prefill_attention
        from pagesim.kernels.runtime import card_of, interpreting
    except ImportError as error:
        raise BackendError(f"backend is triton, which cannot be loaded ({error}); accepted here: reference") from None
    card_of(device)
    check_block_size(block_size)

    def decode(query: torch.Tensor, cache: torch.Tensor, batch: Sequences, options: AttentionOptions) -> torch.Tensor:
        addressing = Addressing.BY_BLOCK if batch.is_paged else Addressing.CONTIGUOUS
        return decode_attention(query, cache, batch, options, addressing=addressing)

    def prefill(query: torch.Tensor, cache: torch.Tensor, chunks: Chunks, options: AttentionOptions) -> torch.Tensor:
        addressing = Addressing.BY_POSITION if chunks.sequences.is_paged else Addressing.CONTIGUOUS
        return prefill_attention(query, cache, chunks, options, addressing=addressing)[0]

    description = "Triton kernels, interpreted" if interpreting() else "Triton kernels"
    return Backend("triton", description, write_kv, decode, prefill, copy_blocks)
