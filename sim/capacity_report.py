"""Everything that `pagesim capacity` says, as one value: the JSON of schema pagesim.capacity/1, in order of printing.

Keys are stable: they may be added to, never renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pagesim.sim.blocktable import ENTRY_BYTES, table_bytes
from pagesim.sim.budget import CONTEXT_BYTES, BudgetOptions, Standing, Term, weights_term
from pagesim.sim.capacity import BareCard, Capacity, Tail
from pagesim.sim.catalog.devices import find_device
from pagesim.sim.geometry import describe
from pagesim.sim.lengths import LengthDistribution
from pagesim.sim.poolplan import PoolOptions, PoolPlan, plan_pool

SEQUENCE_LENGTHS = (2048, 512, 256, 128)
TAIL_BLOCK_SIZES = (16, 32, 64)
GAIN_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked of a pool. `card`: the card for the reservations that it holds beside the weights alone."""

    max_model_len: int
    lengths: LengthDistribution
    sequence_lengths: Sequence[int] = ()
    max_num_seqs: int | None = None
    card: str | None = None


def capacity_report(options: PoolOptions, questions: Questions) -> dict[str, Any]:
    """Answer `questions` about the pool that `options` describe. Raises what `plan_pool` raises."""
    plan = plan_pool(options)
    capacity = Capacity(plan.pool, plan.cache, questions.max_model_len)
    lengths = sorted({*SEQUENCE_LENGTHS, GAIN_TOKENS, *questions.sequence_lengths}, reverse=True)
    blocks = sorted({*TAIL_BLOCK_SIZES, plan.pool.block_size})
    return {
        "schema": "pagesim.capacity/1",
        **_pool(plan),
        "max_model_len": questions.max_model_len,
        "reservation_bytes": capacity.reservation_bytes,
        "reservations": capacity.reservations,
        "sequences": {str(tokens): capacity.sequences(tokens) for tokens in lengths},
        "servable_sequences": {str(tokens): capacity.servable_sequences(tokens) for tokens in lengths},
        "bare_card": _bare_card(plan, options, questions, capacity),
        "gain_tokens": GAIN_TOKENS,
        "gain_over_reservations": _ratio(capacity.sequences(GAIN_TOKENS), capacity.reservations),
        "lengths": {
            "label": questions.lengths.label,
            "mean_tokens": questions.lengths.mean,
            "median_tokens": questions.lengths.median,
        },
        "tail": {str(tail.block_size): _tail(tail, plan) for tail in capacity.tails(questions.lengths, blocks)},
        "block_table": {
            "tokens": questions.max_model_len,
            "entries": plan.pool.blocks_for(questions.max_model_len),
            "bytes": table_bytes(questions.max_model_len, plan.pool.block_size),
            "entry_bytes": ENTRY_BYTES,
        },
        "max_concurrency": capacity.max_concurrency,
        "max_num_seqs": questions.max_num_seqs,
        "needed_bytes": capacity.needed_bytes,
        "starts": capacity.starts,
        "largest_max_model_len": capacity.largest_max_model_len,
        "servable": capacity.servable,
        "largest_servable_len": capacity.largest_servable_len,
        "budget": _budget(plan),
        "notes": _notes(plan, options, questions, capacity),
    }


def _pool(plan: PoolPlan) -> dict[str, Any]:
    pool = plan.pool
    return {
        "model": None if plan.model is None else plan.model.name,
        "device": None if plan.device is None else plan.device.name,
        "layers": None if plan.model is None else describe(plan.model.layers),
        "bytes_per_token": pool.bytes_per_token,
        "bytes_per_block": pool.bytes_per_block,
        "block_size": pool.block_size,
        "num_blocks": pool.num_blocks,
        "null_blocks": pool.null_blocks,
        "usable_blocks": pool.usable_blocks,
        "pool_tokens": pool.pool_tokens,
        "usable_tokens": pool.usable_tokens,
        "pool_bytes": pool.pool_bytes,
    }


def _tail(tail: Tail, plan: PoolPlan) -> dict[str, Any]:
    return {
        "tokens_mean": tail.tokens_mean,
        "share": tail.share,
        "sequences": tail.sequences,
        "tokens_most": tail.tokens_most,
        "bytes_most": tail.tokens_most * plan.pool.bytes_per_token,
    }


def _bare_card(plan: PoolPlan, options: PoolOptions, questions: Questions, capacity: Capacity) -> dict[str, Any] | None:
    """Reservations beside the weights alone; None where no card is named or the weights are not known."""
    device = plan.device if questions.card is None else find_device(questions.card)
    weights = None if device is None else _weights(plan, options.budget, options)
    if device is None or weights is None:
        return None
    bare = BareCard(device.memory_bytes, weights.num_bytes, CONTEXT_BYTES, capacity.reservation_bytes)
    return {
        "device": device.name,
        "total_bytes": bare.total_bytes,
        "weights_bytes": bare.weights_bytes,
        "weights_standing": weights.standing,
        "context_bytes": bare.context_bytes,
        "context_standing": Standing.ESTIMATED,
        "reservations": bare.reservations,
        "gain": _ratio(capacity.sequences(GAIN_TOKENS), bare.reservations),
    }


def _weights(plan: PoolPlan, budget: BudgetOptions, options: PoolOptions) -> Term | None:
    known = plan.model is not None and (plan.model.parameters or plan.model.weights_bytes)
    return weights_term(plan.model, budget, options.tp, options.pp) if known or budget.weights_bytes else None


def _ratio(sequences: int, reservations: int) -> float | None:
    return sequences / reservations if reservations else None


def _budget(plan: PoolPlan) -> dict[str, Any] | None:
    budget = plan.budget
    if budget is None:
        return None
    return {
        "utilization": budget.utilization,
        "total": asdict(budget.total),
        "allowed_bytes": budget.allowed_bytes,
        "terms": [asdict(term) for term in budget.terms],
        "cache_bytes": budget.cache_bytes,
    }


def _notes(plan: PoolPlan, options: PoolOptions, questions: Questions, capacity: Capacity) -> list[str]:
    notes = list(plan.budget.remarks) if plan.budget is not None else []
    if plan.budget is not None and any(term.standing is Standing.ESTIMATED for term in plan.budget.terms):
        notes.append("an estimate: the terms marked so are formulas, and two starts of one engine differ too")
    if plan.pool.null_blocks:
        notes.append(
            f"vLLM keeps block 0 back: {plan.pool.usable_blocks:,} of {plan.pool.num_blocks:,} blocks can be had; "
            "its start-up check counts all of them"
        )
    if plan.model is not None:
        notes += _model_notes(plan, options, questions)
    if capacity.starts and not capacity.servable:
        notes.append(f"start-up accepts {questions.max_model_len:,} tokens, but such a sequence would wait for ever")
    return notes


def _model_notes(plan: PoolPlan, options: PoolOptions, questions: Questions) -> list[str]:
    notes = []
    assert plan.model is not None
    if any(layer is None for layer in plan.model.layers):
        notes.append(
            "layers without a growing cache keep a state of fixed size for each sequence, which is not counted"
        )
    if options.kv_dtype in ("fp8", "int8"):
        notes.append("the scales that some engines store beside an 8-bit cache are not counted")
    if any(layer is not None and layer.window_tokens for layer in plan.model.layers):
        how = "keep no more than their window" if options.windows else "are charged at full length (hybrid manager off)"
        notes.append(f"windowed layers {how}; pool_tokens counts every layer in full")
    if plan.model.max_positions is not None and questions.max_model_len > plan.model.max_positions:
        notes.append(f"{plan.model.name} was made for {plan.model.max_positions:,} positions")
    return notes
