"""Rotary position embedding: the frequencies, with linear and llama3 scaling, and the rotation of queries and keys."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

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


def rotary_table(rotary: RotaryConfig, head_dim: int, num_positions: int) -> torch.Tensor:
    """[2, num_positions, 1, head_dim] fp32: cosines, and sines with the sign that `rotate` needs, of each position."""
    angles = torch.arange(num_positions).float()[:, None] * frequencies(rotary, head_dim)
    cosines, sines = angles.cos(), angles.sin()
    return torch.stack((torch.cat((cosines, cosines), -1), torch.cat((-sines, sines), -1)))[:, :, None]


def rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotate `heads`, [T, heads, head_dim], by [T, 1, head_dim] each; dimension i goes with i + head_dim / 2."""
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
