"""Launch settings: one row per compute capability, and the pure functions that turn a row and shapes into a launch.

The rows were chosen from compiled code (registers, shared memory, instructions in the loop; see `static_account`). None
has been timed on a card yet: that is what `benchmarks/gpu_check` is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pagesim.kernels.addressing import Addressing, largest_tile
from pagesim.kernels.errors import UnsupportedError

MAX_SPLITS = 128
WIDE_ROW_BYTES = 256
MIN_TILE = 16  # the depth of one tensor-core product
MIN_TILES_PER_SPLIT = 4  # below this the start of a program costs more than its share of the work


class Body(Enum):
    """Which of the two decode kernels runs."""

    ONE_HEAD = "one_head"
    GROUPED = "grouped"


@dataclass(frozen=True, slots=True)
class Card:
    """What a launch depends on. `capability` is ten times the compute capability: 75 for a T4."""

    capability: int
    num_multiprocessors: int


@dataclass(frozen=True, slots=True)
class PrefillSettings:
    """The sizes of its tiles are the same on every card: see PREFILL_TILES."""

    warps: int
    tiles_in_flight: int


# (bytes of a number, padded head_dim): (query tokens to a program, positions to a tile), the largest without a spill.
PREFILL_TILES = {
    (2, 64): (64, 64), (2, 128): (64, 32), (2, 256): (32, 32),
    (4, 64): (32, 32), (4, 128): (32, 32), (4, 256): (16, 16),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """One row of the table. `tiles_in_flight`: tiles of K and V fetched ahead of the one being worked on."""

    body: Body
    decode_tile: int  # positions to a tile in half precision, where a head's row is at most WIDE_ROW_BYTES
    tiles_in_flight: int
    programs_per_multiprocessor: int  # decode is split until the card holds so many
    max_shared_bytes: int  # what one program may be given
    prefill: PrefillSettings | None  # None: torch's SDPA on gathered K and V is run instead
    reason: str


SETTINGS: dict[int, Settings] = {
    75: Settings(
        Body.ONE_HEAD, 16, 0, 8, 64 * 1024, None,
        "Turing: tl.dot does not become tensor-core code and there is no asynchronous copy, so one head to a program, "
        "tiles of 16, nothing in flight; prefill goes to torch's SDPA, which still has tensor-core code for Turing",
    ),
    80: Settings(
        Body.GROUPED, 32, 3, 8, 163 * 1024, PrefillSettings(4, 2),
        "Ampere, A100: mma.m16n8k16 on 16 rows, asynchronous copies, three tiles in flight for 1.5 to 2 TB/s",
    ),
    86: Settings(
        Body.GROUPED, 32, 2, 8, 99 * 1024, PrefillSettings(4, 2),
        "Ampere, consumer: the same code with 99 KiB of shared memory and half the bandwidth: two tiles in flight",
    ),
    89: Settings(
        Body.GROUPED, 32, 2, 8, 99 * 1024, PrefillSettings(4, 2),
        "Ada: shared memory as 86; its large L2 does the rest",
    ),
    90: Settings(
        Body.GROUPED, 32, 4, 8, 227 * 1024, PrefillSettings(4, 2),
        "Hopper: mma.m16n8k16 for decode, wgmma for prefill's 64 rows; 3 to 5 TB/s ask for four tiles in flight",
    ),
}  # fmt: skip


def settings_for(capability: int) -> Settings:
    """The row of `capability`, or of the newest card before it. Raises UnsupportedError below 75."""
    known = [row for row in SETTINGS if row <= capability]
    if not known:
        raise UnsupportedError(f"compute capability {capability / 10:.1f}; accepted: 7.5 (Turing) or newer")
    return SETTINGS[max(known)]


def num_stages(tiles_in_flight: int, addressing: Addressing) -> int:
    """Triton's `num_stages` that keeps so many tiles in flight.

    A load whose address comes from a load takes two of the pipeliner's steps, so the paged kernel needs 2n + 1 where
    the contiguous one needs n + 1. Given the same number, the pair would differ in prefetch and not only in the table.
    """
    return 1 + tiles_in_flight * (2 if addressing.reads_table else 1)


def padded_dim(head_dim: int) -> int:
    """The power of two that a head occupies in registers."""
    return 1 << (head_dim - 1).bit_length()


@dataclass(frozen=True, slots=True)
class DecodeLaunch:
    """How decode is launched. `rows`: query heads to a program; for the grouped body at least 16: one mma."""

    body: Body
    tile: int
    rows: int
    warps: int
    stages: int
    splits: int


@dataclass(frozen=True, slots=True)
class DecodeShape:
    """The sizes a decode launch depends on. `item_bytes`: 2 or 4, of a number in the cache."""

    num_sequences: int
    max_length: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    block_size: int
    item_bytes: int


def decode_launch(card: Card, shape: DecodeShape, addressing: Addressing) -> DecodeLaunch:
    """The launch for a batch: a pure function of card and shapes."""
    settings = settings_for(card.capability)
    row_bytes = padded_dim(shape.head_dim) * shape.item_bytes
    weight = row_bytes * shape.item_bytes // 2  # fp32 is multiplied without tensor cores, in twice the registers
    wanted = max(MIN_TILE, settings.decode_tile * WIDE_ROW_BYTES // max(weight, WIDE_ROW_BYTES))
    tile = _tile(shape.block_size, wanted, addressing)
    group = shape.num_heads // shape.num_kv_heads
    rows = min(_most_rows(shape.head_dim), max(16, padded_dim(group))) if settings.body is Body.GROUPED else 1
    warps = min(4, max(1, row_bytes // 128))
    programs = shape.num_sequences * (
        shape.num_heads if settings.body is Body.ONE_HEAD else shape.num_kv_heads * -(-group // rows)
    )
    splits = choose_splits(programs, -(-shape.max_length // tile), card, settings.programs_per_multiprocessor)
    return DecodeLaunch(settings.body, tile, rows, warps, num_stages(settings.tiles_in_flight, addressing), splits)


def _most_rows(head_dim: int) -> int:
    """Query heads to a program that stay in the registers; more of a group go to another program."""
    return 32 if head_dim <= 64 else 16


def choose_splits(programs: int, num_tiles: int, card: Card, programs_per_multiprocessor: int) -> int:
    """Into how many parts each sequence is cut, so that the programs fill the card: 1 where they fill it anyway."""
    wanted = -(-card.num_multiprocessors * programs_per_multiprocessor // max(programs, 1))
    return max(1, min(wanted, num_tiles // MIN_TILES_PER_SPLIT, MAX_SPLITS))


@dataclass(frozen=True, slots=True)
class PrefillLaunch:
    """How prefill is launched: `rows` query tokens of one head to a program, against tiles of `tile` positions."""

    rows: int
    tile: int
    warps: int
    stages: int


def prefill_launch(
    card: Card, head_dim: int, item_bytes: int, block_size: int, addressing: Addressing
) -> PrefillLaunch | None:
    """The launch of a prefill, or None where torch's SDPA on gathered K and V is the documented choice."""
    row = settings_for(card.capability).prefill
    if row is None:
        return None
    rows, tile = PREFILL_TILES[item_bytes, padded_dim(head_dim)]
    tile = _tile(block_size, tile, addressing)
    return PrefillLaunch(rows, tile, row.warps, num_stages(row.tiles_in_flight, addressing))


def _tile(block_size: int, wanted: int, addressing: Addressing) -> int:
    """`wanted`, unless one lookup is to serve the tile: then it may not straddle two blocks."""
    return largest_tile(block_size, wanted) if addressing is Addressing.BY_BLOCK else wanted
