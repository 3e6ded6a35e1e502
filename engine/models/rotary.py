"""Rotary position embedding: the frequencies that a config asks for, with linear and llama3 scaling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pagesim.engine.errors import ModelError

KINDS = ("default", "linear", "llama3")


@dataclass(frozen=True, slots=True)
class RotaryConfig:
    """Frequencies are theta^(-2i / head_dim), then scaled.

    "linear" divides all of them by `factor`. "llama3" (Llama 3.1) divides those of long wavelengths, past
    `original_max_positions / low_freq_factor`, leaves those below `original_max_positions / high_freq_factor`, and
    goes over smoothly in between.
    """

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_positions: int = 8192


def read_rotary(config: Mapping[str, Any], name: str) -> RotaryConfig:
    """From `rope_theta` and `rope_scaling`, or the newer `rope_parameters`. Raises ModelError on another scaling."""
    given = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in KINDS:
        raise ModelError(f"{name}: the rotary scaling is {kind}; accepted: {', '.join(KINDS)}")
    if given.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(f"{name}: partial_rotary_factor is {given['partial_rotary_factor']}; accepted: 1.0")
    default = RotaryConfig(0.0)
    return RotaryConfig(
        theta=float(given.get("rope_theta", config.get("rope_theta", 10000.0))),
        kind=kind,
        factor=float(given.get("factor", default.factor)),
        low_freq_factor=float(given.get("low_freq_factor", default.low_freq_factor)),
        high_freq_factor=float(given.get("high_freq_factor", default.high_freq_factor)),
        original_max_positions=int(given.get("original_max_position_embeddings", default.original_max_positions)),
    )


def frequencies(rotary: RotaryConfig, head_dim: int) -> torch.Tensor:
    """Radians per position, [head_dim / 2] fp32."""
    plain = 1.0 / rotary.theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    if rotary.kind == "default":
        return plain
    if rotary.kind == "linear":
        return plain / rotary.factor
    turns = rotary.original_max_positions * plain / (2 * math.pi)  # over the original context
    low, high = rotary.low_freq_factor, rotary.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return plain * keep + plain / rotary.factor * (1 - keep)
