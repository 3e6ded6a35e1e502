"""What a run writes down: a row for each stretch of like steps, admission and preemption; two times for each request.

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
# first step; `blocks_last`: in the last one. `context_tokens`: what the sequences that run have computed when the first
# step ends, shared prefixes counted for each of them; in a stretch it grows by one for each sequence and step.
# `shared_tokens`: of them, those that lie in a slot which is counted already. `cached_blocks`: free blocks that can
# still be found, in the first step. `stop`: why nobody else was admitted, of scheduler.Stop; where that is for want of
# blocks, `asked_blocks` is what the head of the queue asked for, and else 0.
SEGMENT = np.dtype(
    [
        ("start_s", "f8"), ("first_s", "f8"), ("growth_s", "f8"), ("steps", "i8"), ("running", "i8"), ("tokens", "i8"),
        ("gaps", "i8"), ("blocks_used", "i8"), ("blocks_last", "i8"), ("context_tokens", "i8"),
        ("shared_tokens", "i8"), ("cached_blocks", "i8"), ("stop", "i8"), ("asked_blocks", "i8"),
    ]
)  # fmt: skip
pack_segment = Struct("=3d11q").pack
# `blocks`: those that were free before, and are not any more.
ADMISSION = np.dtype([("step", "i8"), ("row", "i8"), ("hit_tokens", "i8"), ("known_tokens", "i8"), ("blocks", "i8")])
pack_admission = Struct("=5q").pack
# A piece of a prompt, or of what must be computed again: when it ends, `computed` of `known` tokens are; `recomputed`
# of its own had been computed before.
CHUNK = np.dtype([("step", "i8"), ("row", "i8"), ("computed", "i8"), ("known", "i8"), ("recomputed", "i8")])
pack_chunk = Struct("=5q").pack
EVENT = np.dtype([("step", "i8"), ("row", "i8")])
ODD_GAP = np.dtype([("end_s", "f8"), ("length_s", "f8")])
RECOMPUTING = np.dtype([("step", "f8"), ("seconds", "f8")])


@dataclass(slots=True)
class Record:
    """Filled by the run; read by `ServingLog`. `preemptions`, and `held_back`, steps in which a decode that runs gets
    nothing, are of EVENT. `last_token_s`: of requests that are between two tokens for longer than a step. `odd_gaps`:
    such intervals, of ODD_GAP. `recomputing`: how much longer steps took for what they computed once more.
    """

    first_token_s: array[float]
    finish_s: array[float]
    segments: bytearray = field(default_factory=bytearray)
    admissions: bytearray = field(default_factory=bytearray)
    chunks: bytearray = field(default_factory=bytearray)
    preemptions: array[int] = field(default_factory=lambda: array("q"))
    shared_tails: array[int] = field(default_factory=lambda: array("q"))
    held_back: array[int] = field(default_factory=lambda: array("q"))
    odd_gaps: array[float] = field(default_factory=lambda: array("d"))
    recomputing: array[float] = field(default_factory=lambda: array("d"))
    last_token_s: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, requests: int) -> Record:
        """Empty."""
        unknown = array("d", [math.nan])
        return cls(unknown * requests, unknown * requests)
