"""What `bench attention` measures: the grid of cases, the bytes each must move, the ratio of paged to contiguous."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from pagesim.kernels.account import BLOCK_MULTIPLE
from pagesim.kernels.errors import InputError, UnsupportedError

ITEM_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
L2_TIMES = 3  # inputs are rotated over at least so many times the L2, so that none is found there, up to
MAX_COPIES = 8  # sets of inputs: past them it is do_bench alone that clears the L2 before every call


@dataclass(frozen=True, slots=True)
class Heads:
    """The attention of one layer. The defaults are those of the note's model."""

    num_heads: int = 14
    num_kv_heads: int = 2
    head_dim: int = 64
    dtype: str = "fp16"

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise InputError(f"dtype is {self.dtype}; accepted: {', '.join(ITEM_BYTES)}")
        if self.num_kv_heads < 1 or self.num_heads < 1 or self.num_heads % self.num_kv_heads:
            raise InputError(f"{self.num_heads} heads over {self.num_kv_heads} KV heads; accepted: a multiple of them")

    @property
    def item_bytes(self) -> int:
        """Bytes of a number in the cache."""
        return ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Grid:
    """The axes. Every batch is of equal lengths: the padded competitors then carry no padding."""

    block_sizes: tuple[int, ...] = (16, 32, 64, 128)
    contexts_tokens: tuple[int, ...] = (128, 512, 2048, 8192, 32768)
    batches: tuple[int, ...] = (1, 8, 64, 256)

    def check(self) -> None:
        """Raise InputError on a size below 1, UnsupportedError on a block size the Triton backend refuses."""
        sizes = {"block size": self.block_sizes, "context": self.contexts_tokens, "batch": self.batches}
        for name, values in sizes.items():
            for value in values:
                if value < 1:
                    raise InputError(f"{name} is {value}; accepted: at least 1")
        for block_size in self.block_sizes:
            if block_size % BLOCK_MULTIPLE:
                raise UnsupportedError(
                    f"block size is {block_size}; the Triton backend takes multiples of {BLOCK_MULTIPLE}"
                )

    def cases(self, heads: Heads) -> Iterator[Case]:
        """Every combination, small ones first."""
        for context, batch, block_size in product(self.contexts_tokens, self.batches, self.block_sizes):
            yield Case(heads, batch, context, block_size)


@dataclass(frozen=True, slots=True)
class Case:
    """One point: `batch` sequences of `context_tokens` each, in blocks of `block_size`."""

    heads: Heads
    batch: int
    context_tokens: int
    block_size: int

    @property
    def blocks_per_sequence(self) -> int:
        """Entries of each block table."""
        return -(-self.context_tokens // self.block_size)

    @property
    def kv_bytes(self) -> int:
        """K and V of all sequences, read once."""
        heads = self.heads
        return 2 * self.batch * self.context_tokens * heads.num_kv_heads * heads.head_dim * heads.item_bytes

    @property
    def bytes_moved(self) -> int:
        """What any kernel must move: K and V, the query in and the output out. The block table is not in it."""
        heads = self.heads
        return self.kv_bytes + 2 * self.batch * heads.num_heads * heads.head_dim * heads.item_bytes


def num_copies(case: Case, l2_bytes: int) -> int:
    """How many sets of inputs to rotate over, so that together they pass L2_TIMES the L2."""
    return min(MAX_COPIES, max(1, -(-L2_TIMES * l2_bytes // case.kv_bytes)))


def ratios(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Paged time over the contiguous twin's, for rows of one case and the same tiles in flight."""
    found = []
    for row in rows:
        if row.get("addressing") not in ("BY_POSITION", "BY_BLOCK") or "time_us" not in row:
            continue
        key = ("batch", "context_tokens", "block_size", "tiles_in_flight")
        twins = [
            other
            for other in rows
            if other.get("addressing") == "CONTIGUOUS" and "time_us" in other and all(other[k] == row[k] for k in key)
        ]
        if twins:
            ratio = float(str(row["time_us"])) / float(str(twins[0]["time_us"]))
            found.append({k: row[k] for k in (*key, "addressing")} | {"paged_over_contiguous": ratio})
    return found
