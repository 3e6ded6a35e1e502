"""The linear layers of a decoder: oneDNN's product on a CPU whose weights were laid out for it, else torch's."""

from __future__ import annotations

from dataclasses import dataclass

import torch

ROWS = 256  # of the product that weights are packed for; of 1, 16 and 256 it was fastest for nearly all from 1 to 256


@dataclass(frozen=True, slots=True)
class Linear:
    """`weight`: [out, in], packed or not; `bias`: [out] or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, in] to [rows, out]."""
        if self.is_packed:
            product = torch.ops.mkldnn._linear_pointwise.default
            rows: torch.Tensor = product(x, self.weight, self.bias, "none", [], "")
            return rows
        return torch.nn.functional.linear(x, self.weight, self.bias)

    @property
    def is_packed(self) -> bool:
        """Whether the weight can be multiplied with and not be read any more."""
        return self.weight.is_mkldnn

    def packed(self) -> Linear:
        """The same, its weights in the order in which oneDNN reads them; others it reorders in every product."""
        return Linear(torch.ops.mkldnn._reorder_linear_weight(self.weight, ROWS), self.bias)


def can_pack(like: torch.Tensor) -> bool:
    """Whether oneDNN is there, and computes on this processor in the dtype, and on the device, of `like`."""
    if like.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if like.dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return like.dtype is torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
