"""The pool: how many blocks there are, of how many tokens, and what a token costs.

A pool is cut once. What decides how many blocks it has is in `budget`; what places sequences into it is in
`allocators`. Blocks here are plain: each holds `block_size` tokens of every layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pagesim.sim.errors import GeometryError


class Engine(StrEnum):
    """Whose rules turn bytes into blocks."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"

    @property
    def null_blocks(self) -> int:
        """Blocks counted in the pool's size that no sequence ever gets: vLLM keeps block 0 back as padding."""
        return 1 if self is Engine.VLLM else 0

    def blocks_in(self, num_bytes: int, bytes_per_block: int) -> int:
        """Blocks the engine makes of a budget: whole ones, except that TensorRT-LLM rounds up."""
        return -(-num_bytes // bytes_per_block) if self is Engine.TRTLLM else num_bytes // bytes_per_block


@dataclass(frozen=True, slots=True)
class PoolGeometry:
    """`num_blocks` blocks of `block_size` tokens at `bytes_per_token`, on each rank alike.

    `num_blocks` is what an engine logs, the null block included; `usable_blocks` is what sequences can get.
    Raises GeometryError unless every count is at least 1 and at least one block is usable.
    """

    num_blocks: int
    block_size: int
    bytes_per_token: int
    null_blocks: int = 1

    def __post_init__(self) -> None:
        for name in ("num_blocks", "block_size", "bytes_per_token"):
            if getattr(self, name) < 1:
                raise GeometryError(f"{name} is {getattr(self, name)}; accepted: 1 or more")
        if not 0 <= self.null_blocks < self.num_blocks:
            raise GeometryError(
                f"a pool of {self.num_blocks} blocks holds nothing beside {self.null_blocks} null block; "
                f"accepted: {self.null_blocks + 1} blocks or more"
            )

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block over all layers of a rank."""
        return self.block_size * self.bytes_per_token

    @property
    def pool_tokens(self) -> int:
        """Tokens of the whole pool, null block included: the size an engine logs."""
        return self.num_blocks * self.block_size

    @property
    def pool_bytes(self) -> int:
        """Bytes of the whole pool on one rank, null block included."""
        return self.num_blocks * self.bytes_per_block

    @property
    def usable_blocks(self) -> int:
        """Blocks that sequences can get."""
        return self.num_blocks - self.null_blocks

    @property
    def usable_tokens(self) -> int:
        """Tokens that sequences can hold."""
        return self.usable_blocks * self.block_size

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a sequence of `tokens` tokens occupies: the last one may be partly empty."""
        return -(-tokens // self.block_size)


NOTE_POOL = PoolGeometry(num_blocks=58_064, block_size=16, bytes_per_token=12_288)
"""The pool of the note's simulation: a Tesla T4 at 85%, Qwen2.5-0.5B in half precision, 929,024 tokens."""
