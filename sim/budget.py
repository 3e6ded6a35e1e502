"""What of a card's memory is left for the cache: total x utilization, less weights, activations and workspace.

Each term says how far it can be trusted: given by the caller, measured, or estimated by a formula that it states. Left
out: CUDA graphs, which vLLM captures after it has cut the pool, and how ranks differ from each other.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any

from pagesim.sim.catalog.devices import Device
from pagesim.sim.catalog.modelconfig import Model
from pagesim.sim.errors import GeometryError, UsageError
from pagesim.sim.sizes import format_bytes

DEFAULT_UTILIZATION = 0.92  # vLLM 0.29's --gpu-memory-utilization
WORKSPACE_BYTES = 2**28  # CUDA context, NCCL and cuBLAS workspaces: 0.25 GiB in an accuracy report on an H100
CONTEXT_BYTES = round(0.2 * 2**30)  # a CUDA context alone, beside which the bare card holds weights and reservations
BATCHED_TOKENS = 8192  # vLLM's default max_num_batched_tokens offline, and for serving from 70 GiB upwards
LOGITS_COPIES = 2.25  # fitted to three measured peaks, see docs/capacity.md


class Standing(StrEnum):
    """How far a figure can be trusted."""

    GIVEN = "given"
    MEASURED = "measured"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the card's memory, in bytes on one rank, and how it was come by."""

    name: str
    num_bytes: int
    standing: Standing
    how: str


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """What a caller may set of a budget, bytes of one rank; None leaves a term to be measured or estimated."""

    utilization: float = DEFAULT_UTILIZATION
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    workspace_bytes: int | None = None
    noncache_bytes: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.utilization <= 1:
            raise UsageError(f"--utilization {self.utilization:g}; accepted: above 0, up to 1")
        for name in ("max_num_batched_tokens", "max_num_seqs"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} {value}; accepted: 1 or more")
        parts = [self.weights_bytes, self.activation_bytes, self.workspace_bytes]
        if self.noncache_bytes is not None and any(part is not None for part in parts):
            raise UsageError(
                "--noncache-bytes is all that is not cache; accepted: it alone, or --weights-bytes, --activation-bytes "
                "and --workspace-bytes"
            )


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """A card's memory, part by part. Raises GeometryError if nothing is left for the cache."""

    total: Term
    utilization: float
    terms: tuple[Term, ...]
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.cache_bytes <= 0:
            parts = ", ".join(f"{term.name} {format_bytes(term.num_bytes)}" for term in self.terms)
            raise GeometryError(
                f"{self.utilization:g} of {format_bytes(self.total.num_bytes)} leaves nothing for the cache beside "
                f"{parts}; accepted: a larger card, a higher utilization, or more ranks"
            )

    @property
    def allowed_bytes(self) -> int:
        """What the engine may use: ceil(total x utilization), the utilization taken as the decimal that was written."""
        return math.ceil(self.total.num_bytes * Fraction(str(self.utilization)))

    @property
    def cache_bytes(self) -> int:
        """What is left for the cache."""
        return self.allowed_bytes - sum(term.num_bytes for term in self.terms)


def memory_budget(model: Model | None, device: Device, options: BudgetOptions, tp: int, pp: int) -> MemoryBudget:
    """The budget of one of `tp` x `pp` ranks, each on a card of its own.

    Raises GeometryError if a term cannot be had: the message names the option that gives it.
    """
    standing = Standing.GIVEN if device.memory_kind == "datasheet" else Standing.MEASURED
    total = Term("total", device.memory_bytes, standing, f"{device.memory_kind}: {device.memory_source}")
    measured = _measured(model, device, options, tp * pp)
    if options.noncache_bytes is not None:
        terms: tuple[Term, ...] = (_given("not cache", options.noncache_bytes, "--noncache-bytes"),)
    elif measured is not None:
        terms = (Term("not cache", measured["noncache_bytes"], Standing.MEASURED, measured["source"]),)
    else:
        terms = (
            weights_term(model, options, tp, pp),
            _activation_term(model, device, options, tp),
            _workspace_term(options),
        )
    remarks = (measured["remark"],) if measured is not None and options.noncache_bytes is None else ()
    return MemoryBudget(total, options.utilization, terms, remarks)


def weights_term(model: Model | None, options: BudgetOptions, tp: int = 1, pp: int = 1) -> Term:
    """Weights on one rank. Raises GeometryError if neither the parameters nor a checkpoint's size are known."""
    if options.weights_bytes is not None:
        return _given("weights", options.weights_bytes, "--weights-bytes")
    ranks, split = tp * pp, "" if tp * pp == 1 else f", divided evenly over {tp * pp} ranks"
    if model is not None and model.weights_bytes is not None:
        standing = Standing.MEASURED if ranks == 1 else Standing.ESTIMATED
        return Term("weights", -(-model.weights_bytes // ranks), standing, f"size of the checkpoint{split}")
    if model is None or model.parameters is None:
        raise GeometryError("the size of the weights is not known; accepted: --weights-bytes, or --noncache-bytes")
    num_bytes = -(-model.parameters * model.number_bytes() // ranks)
    how = f"{model.parameters:,} parameters x {model.number_bytes()} B{split}"
    return Term("weights", num_bytes, Standing.ESTIMATED, how)


def _activation_term(model: Model | None, device: Device, options: BudgetOptions, tp: int) -> Term:
    """Peak of vLLM's profile run: one step of the token budget, and the logits of as many sequences as may run."""
    if options.activation_bytes is not None:
        return _given("activations", options.activation_bytes, "--activation-bytes")
    if model is None or model.mlp_numbers is None or model.vocab_size is None:
        missing = "the model" if model is None else "vocab_size" if model.vocab_size is None else "intermediate_size"
        raise GeometryError(f"activations cannot be estimated: {missing} is missing; accepted: --activation-bytes")
    tokens = options.max_num_batched_tokens or BATCHED_TOKENS
    sequences = options.max_num_seqs or _default_num_seqs(device)
    mlp, number_bytes = -(-model.mlp_numbers // tp), max(2, model.number_bytes())
    step = tokens * (mlp + 2 * model.hidden_size) * number_bytes
    logits = round(LOGITS_COPIES * sequences * model.vocab_size * 4)
    how = (
        f"{tokens:,} tokens x ({mlp:,} + 2 x {model.hidden_size:,}) numbers x {number_bytes} B"
        f" + {LOGITS_COPIES:g} x {sequences:,} sequences x {model.vocab_size:,} logits x 4 B"
    )
    return Term("activations", step + logits, Standing.ESTIMATED, how)


def _workspace_term(options: BudgetOptions) -> Term:
    if options.workspace_bytes is not None:
        return _given("workspace", options.workspace_bytes, "--workspace-bytes")
    return Term("workspace", WORKSPACE_BYTES, Standing.ESTIMATED, "CUDA context and libraries, 0.25 GiB")


def _default_num_seqs(device: Device) -> int:
    return serving_limits(device)[1]


def serving_limits(device: Device) -> tuple[int, int]:
    """vLLM's defaults (max_num_batched_tokens, max_num_seqs) of a server: larger from 70 GiB upwards, A100s apart."""
    return (8192, 1024) if device.memory_bytes >= 70 * 2**30 and not device.name.startswith("a100") else (2048, 256)


def _given(name: str, num_bytes: int, option: str) -> Term:
    return Term(name, num_bytes, Standing.GIVEN, option)


def _measured(model: Model | None, device: Device, options: BudgetOptions, ranks: int) -> dict[str, Any] | None:
    """What was measured of this very pair on one card, unless the caller sets a part of it."""
    own = [options.weights_bytes, options.activation_bytes, options.workspace_bytes]
    own += [options.max_num_seqs, options.max_num_batched_tokens]
    if model is None or ranks != 1 or any(part is not None for part in own):
        return None
    pairs = (entry for entry in _measurements() if (entry["device"], entry["model"]) == (device.name, model.name))
    return next(pairs, None)


@cache
def _measurements() -> list[dict[str, Any]]:
    text = files("pagesim.sim.catalog").joinpath("budgets.json").read_text(encoding="utf-8")
    measured: list[dict[str, Any]] = json.loads(text)["measured"]
    return measured
