"""Ours for the rows of `published.json`: arithmetic, capacity, the placement experiment, the kernels' rules.

Each function gives values in the order of the rows of one name. The rows of serving come from the experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagesim.sim.blocktable import Tile, table_bytes, table_reads
from pagesim.sim.budget import BudgetOptions
from pagesim.sim.capacity import BareCard, Capacity, tail
from pagesim.sim.catalog.models import find_model
from pagesim.sim.config import RunConfig
from pagesim.sim.geometry import cache_geometry
from pagesim.sim.lengths import note_lengths
from pagesim.sim.pool import NOTE_POOL
from pagesim.sim.poolplan import PoolOptions, plan_pool
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.validate.note.row import Standing

MODEL = find_model("qwen2.5-0.5b")
NUMBER_BYTES = 2  # half precision
CACHE = cache_geometry(MODEL.layers, NUMBER_BYTES)
CONTEXT = 2048
CAPACITY = Capacity(NOTE_POOL, CACHE, CONTEXT)
CARD_BYTES = 14_912 * 2**20
CUDA_CONTEXT_BYTES = round(0.2 * 2**30)  # assumed: the note does not give it
BLOCK_SIZES = (16, 32, 64)
LOADS = ("moderate", "high")
OnProgress = Callable[[int], None] | None


@dataclass(frozen=True, slots=True)
class Ours:
    """Values for the rows of one name, what they are worth if they agree, and why."""

    values: Sequence[float]
    standing: Standing
    remark: str


def arithmetic(remark: str, *values: float) -> Ours:
    """Must be equal."""
    return Ours(values, Standing.ARITHMETIC, remark)


def at_utilization(utilization: float) -> int:
    """Tokens of cache that the card leaves."""
    options = PoolOptions("qwen2.5-0.5b", device="t4", budget=BudgetOptions(utilization))
    return plan_pool(options).pool.pool_tokens


def geometry() -> dict[str, Ours]:
    """What follows from the model's shape and the pool's size."""
    tile = Tile(head_dim=64, number_bytes=NUMBER_BYTES, queries=MODEL.query_heads // 2)
    sequences = [CAPACITY.sequences(tokens) for tokens in (2048, 512, 256, 128)]
    bare = BareCard(CARD_BYTES, (MODEL.parameters or 0) * NUMBER_BYTES, CUDA_CONTEXT_BYTES, CAPACITY.reservation_bytes)
    bound = tail(note_lengths(), 16, NOTE_POOL.pool_tokens).tokens_most
    layer = NOTE_POOL.bytes_per_block // len(MODEL.layers)
    return {
        "kv_bytes_per_token": arithmetic("Layers, KV heads, head size, K and V.", CACHE.bytes_per_token),
        "reservation_bytes": arithmetic("2,048 times that.", CAPACITY.reservation_bytes),
        "reservations_card": Ours(
            (bare.reservations,),
            Standing.REPRODUCED,
            "With 0.2 GiB for the CUDA context, which the note does not give and which decides the last few.",
        ),
        "reservations_budget": arithmetic("Pool over 2,048 tokens, rounded down.", CAPACITY.reservations),
        "capacity_by_length": arithmetic("Whole blocks; the null block counts as room, as in the note.", *sequences),
        "gain_256": arithmetic(
            "One digit, as the note has it.", round(sequences[2] / 573, 1), round(sequences[2] / 453, 1)
        ),
        "tail_bound": arithmetic("All of a block but one slot.", bound, bound * CACHE.bytes_per_token),
        "table_bytes": arithmetic("Four bytes an entry.", NOTE_POOL.blocks_for(CONTEXT), table_bytes(CONTEXT, 16)),
        "table_reads": arithmetic(
            "One lookup for each position, layer and KV head.", table_reads(2000, len(MODEL.layers), kv_heads=2)
        ),
        "tile": arithmetic(
            "Seven query heads share what is read.", tile.table_bytes, tile.cache_bytes, tile.multiply_adds
        ),
        "cache_shape": arithmetic("What the note found in the engine follows.", layer, NOTE_POOL.bytes_per_block),
    }


def budget() -> dict[str, Ours]:
    """What the card leaves: one number, what is not cache, was fitted on three pools."""
    plan = plan_pool(PoolOptions("qwen2.5-0.5b", device="t4", budget=BudgetOptions(0.85)))
    noncache = sum(term.num_bytes for term in plan.budget.terms) if plan.budget is not None else 0
    one = "One number, what is not cache, was fitted on the pools at 70, 85 and 95%: they leave 65 KB of play."
    return {
        "noncache_bytes": Ours(
            (noncache,),
            Standing.NOT_EXPLAINED,
            "The figure that the note prints gives none of its three pools; 1.8647 GB gives all of them. It may count "
            "the CUDA context too, or a GB otherwise.",
        ),
        **{f"pool_{percent}": Ours((at_utilization(percent / 100),), Standing.FITTED, one) for percent in (70, 85, 95)},
        "pool_blocks": Ours(
            (at_utilization(0.85) // 16 - 52,), Standing.FITTED, "The fitted pool, less the 52 blocks between starts."
        ),
    }


def drawn() -> dict[str, Ours]:
    """What the note drew at random: exact expectations here."""
    lengths = note_lengths()
    tails = [tail(lengths, size, NOTE_POOL.pool_tokens) for size in BLOCK_SIZES]
    why = "The exact expectation; the note's draws had a mean of 260, the clipped distribution's is 258.5."
    return {
        "lengths": Ours((lengths.mean, lengths.median), Standing.REPRODUCED, "A lognormal, clipped to the context."),
        "tail_waste": Ours(
            [t.tokens_mean for t in tails] + [round(t.share, 3) for t in tails], Standing.REPRODUCED, why
        ),
        "room": Ours([t.sequences for t in tails], Standing.REPRODUCED, why),
    }


def placed(on_progress: OnProgress = None) -> dict[str, Ours]:
    """The two loads, five independent draws each."""
    moderate, high = (_run(load, on_progress) for load in LOADS)
    reservation = moderate.allocators["reservation"]
    others = max(moderate.allocators[name].refused_share.mean for name in ("exact-fit", "paged"))
    exact, paged = high.allocators["exact-fit"], high.allocators["paged"]
    load = "The note does not give its loads; those that reproduce it were searched for."
    return {
        "moderate": Ours(
            (reservation.refused_share.mean, reservation.occupied.mean,
             reservation.used.mean / reservation.occupied.mean, others), Standing.REPRODUCED, load,
        ),
        "high_exact": Ours(
            (exact.occupied.mean,), Standing.REPRODUCED, f"The mean over time, filling included. {load}"
        ),
        "high_paged": Ours(
            (paged.occupied.mean, float(paged.refused_share.mean > exact.refused_share.mean)), Standing.REPRODUCED,
            f"The mean over time, filling included. {load}",
        ),
    }  # fmt: skip


def kernels() -> dict[str, Ours]:
    """What the kernels refuse, and what no model of steps can tell."""
    return {
        "block_16_32": Ours(
            (1.0,),
            Standing.PREDICTED,
            "A step-time model sees tokens, not blocks: no difference. The note's 0.6% lies within its repeats, which "
            "span 2.1%. No card was at hand to time the two.",
        ),
        "block_refused": _smallest_block(),
    }


def _smallest_block() -> Ours:
    try:
        from pagesim.kernels.errors import UnsupportedError
        from pagesim.kernels.layout import check_block_size
    except ModuleNotFoundError as missing:
        hint = f"{missing.name} is not installed here; with pip install 'pagesim[engine]' the kernels are asked."
        return Ours((math.nan,), Standing.NOT_EXPLAINED, hint)
    for size in range(1, 129):
        try:
            check_block_size(size)
        except UnsupportedError:
            continue
        return Ours((size,), Standing.REPRODUCED, "The kernels refuse any smaller one, in a sentence.")
    raise AssertionError("the kernels take no block size")


def loaded(load: str) -> RunConfig:
    """`pagesim run --load`."""
    return RunConfig(load=load)


def _run(load: str, on_progress: OnProgress) -> RunResult:
    config = loaded(load)
    return RunResult.of(config, run(config, on_progress=on_progress))
