"""Rotary position embedding: cosines and sines of every position, and the rotation of query and key heads by them."""

from __future__ import annotations

import torch


def rotary_table(frequencies: torch.Tensor, num_positions: int) -> torch.Tensor:
    """[2, num_positions, 1, head_dim] fp32: cosines, and sines with the sign that `rotate` needs, of each position.

    `frequencies`: [head_dim / 2] fp32, radians per position.
    """
    angles = torch.arange(num_positions).float()[:, None] * frequencies
    cosines, sines = angles.cos(), angles.sin()
    return torch.stack((torch.cat((cosines, cosines), -1), torch.cat((-sines, sines), -1)))[:, :, None]


def rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotate `heads`, [T, heads, head_dim], by [T, 1, head_dim] each; dimension i goes with i + head_dim / 2."""
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
