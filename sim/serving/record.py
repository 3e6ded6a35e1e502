"""What a run writes down as it goes: a row for each stretch of like steps, admission, and preemption; two times a request.

Numbers are packed as they come, so that a million requests are some hundred megabytes and not ten times that.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from struct import Struct

import numpy as np

# One row for each stretch of steps that are alike. `first_s`: duration of the first step; each later one takes
# `growth_s` longer. `gaps`: sequences that got a token in each step, and in the step before it. `blocks_used`: in the
# first step; `blocks_last`: in the last one. `stop`: why nobody else was admitted, of scheduler.Stop.
SEGMENT = np.dtype(
    [
        ("start_s", "f8"), ("first_s", "f8"), ("growth_s", "f8"), ("steps", "i8"), ("running", "i8"), ("tokens", "i8"),
        ("gaps", "i8"), ("blocks_used", "i8"), ("blocks_last", "i8"), ("stop", "i8"),
    ]
)  # fmt: skip
pack_segment = Struct("=3d7q").pack
pack_admission = Struct("=4q").pack
ADMISSION = np.dtype([("step", "i8"), ("row", "i8"), ("hit_tokens", "i8"), ("known_tokens", "i8")])
PREEMPTION = np.dtype([("step", "i8"), ("row", "i8")])


@dataclass(slots=True)
class Record:
    """Filled by the run; read by `ServingLog`. `last_token_s`: of requests that are between two tokens for longer than
    a step. `odd_gaps_s`: the lengths of such intervals. `taking`: if it is kept, for each segment of several steps the
    blocks that decodes take in its first step and each one after, over and over.
    """

    first_token_s: array[float]
    finish_s: array[float]
    taking: dict[int, tuple[int, ...]] | None
    segments: bytearray = field(default_factory=bytearray)
    admissions: bytearray = field(default_factory=bytearray)
    preemptions: array[int] = field(default_factory=lambda: array("q"))
    odd_gaps_s: array[float] = field(default_factory=lambda: array("d"))
    last_token_s: dict[int, float] = field(default_factory=dict)
    recomputed_tokens: int = 0

    @classmethod
    def of(cls, requests: int, keep_taking: bool) -> Record:
        """Empty."""
        unknown = array("d", [math.nan])
        return cls(unknown * requests, unknown * requests, {} if keep_taking else None)
