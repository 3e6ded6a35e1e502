"""Objectives of one request: how long it may take to its first token, for each further one, and in all."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.log import ServingLog

UNITS_S = {"s": 1.0, "ms": 1e-3}
TERM = re.compile(r"(ttft|tpot|e2e)<([0-9.eE+-]+)(ms|s)")
ACCEPTED = "terms like ttft<2s,tpot<50ms,e2e<30s, each of them at most once"


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds, inf where there is none. A request with one output has no TPOT, and keeps any."""

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    e2e_s: float = math.inf

    def kept(self, log: ServingLog) -> NDArray[np.bool_]:
        """Which requests finished within all limits, bool [requests]."""
        gaps = np.maximum(log.output_tokens - 1, 1)
        ttft_s, e2e_s = log.first_token_s - log.arrival_s, log.finish_s - log.arrival_s
        tpot_s = (log.finish_s - log.first_token_s) / gaps
        kept: NDArray[np.bool_] = (ttft_s <= self.ttft_s) & (tpot_s <= self.tpot_s) & (e2e_s <= self.e2e_s)
        return kept  # a comparison with NaN, of what never happened, is false


def parse_slo(text: str) -> Slo:
    """`ttft<2s,tpot<50ms`. Raises UsageError on anything else."""
    limits: dict[str, float] = {}
    for part in text.replace(" ", "").split(","):
        found = TERM.fullmatch(part)
        try:
            limit_s = float(found[2]) * UNITS_S[found[3]] if found else math.nan
        except ValueError:
            limit_s = math.nan
        if not found or f"{found[1]}_s" in limits or not 0 < limit_s < math.inf:
            raise UsageError(f"--slo '{text}': '{part}'; accepted: {ACCEPTED}")
        limits[f"{found[1]}_s"] = limit_s
    return Slo(**limits)
