"""What a layer asks of attention, beside the tensors: scale, sliding window, soft cap."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pagesim.kernels.errors import InputError

LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """Scores are `scale * q.k`, then, with a soft cap c, `c * tanh(score / c)`.

    With a `window` of w tokens, a query at position p sees the positions from p - w + 1 to p. Raises InputError on a
    value that is not finite and positive.
    """

    scale: float
    window: int | None = None
    softcap: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"scale is {self.scale}; accepted: a finite number above 0")
        if self.window is not None and self.window < 1:
            raise InputError(f"window is {self.window}; accepted: at least 1 token, or None")
        if self.softcap is not None and not (math.isfinite(self.softcap) and self.softcap > 0):
            raise InputError(f"softcap is {self.softcap}; accepted: a finite number above 0, or None")

    @property
    def score_factor(self) -> float:
        """What q.k is multiplied by in the kernel, which takes its exponentials in base 2: before the cap, if any."""
        return self.scale / self.softcap if self.softcap is not None else self.scale * LOG2_E

    @property
    def cap_factor(self) -> float:
        """The cap in base 2, by which tanh is multiplied; 1 where there is no cap and it is not used."""
        return self.softcap * LOG2_E if self.softcap is not None else 1.0
