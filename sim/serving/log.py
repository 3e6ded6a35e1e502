"""What happened to one trace: columns by request, by admission, and by stretch of like steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.serving.config import PAGED, ServingConfig
from pagesim.sim.serving.record import ADMISSION, CHUNK, EVENT, ODD_GAP, RECOMPUTING, SEGMENT, Record
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.whatifs import WhatIfs
from pagesim.sim.trace import Floats, Ints, Trace

Rows = NDArray[np.void]


@dataclass(frozen=True, slots=True, eq=False)
class ServingLog:
    """The log of a run, from which all figures and every single step follow.

    By request: `rejected` (bool), and float64 seconds on the run's clock, NaN where it did not happen: `admitted_s`
    (start of the step that first let it in), `first_token_s` and `finish_s`. `segments` is of SEGMENT, `admissions` of
    ADMISSION, `chunks` of CHUNK, `preemptions` and `held_back` of EVENT, in order of time. `odd_gaps`, of ODD_GAP:
    intervals between two tokens of one request that were longer than a step. `recomputing`, of RECOMPUTING: time spent
    in steps on computing tokens once more.
    """

    config: ServingConfig
    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    rejected: NDArray[np.bool_]
    admitted_s: Floats
    first_token_s: Floats
    finish_s: Floats
    segments: Rows
    admissions: Rows
    chunks: Rows
    preemptions: Rows
    held_back: Rows
    odd_gaps: Rows
    recomputing: Rows
    shared_tails: Ints
    what_ifs: WhatIfs

    @classmethod
    def of(
        cls, trace: Trace, config: ServingConfig, requests: Requests, record: Record, what_ifs: WhatIfs
    ) -> ServingLog:
        """Columns of what was recorded."""
        segments, admissions = np.frombuffer(record.segments, SEGMENT), np.frombuffer(record.admissions, ADMISSION)
        rejected = np.ones(len(trace), np.bool_)
        rejected[requests.servable] = False
        return cls(
            config,
            trace.arrival_s,
            trace.prompt_tokens,
            trace.output_tokens,
            rejected,
            _admitted_s(segments, admissions, len(trace)),
            np.array(record.first_token_s),
            np.array(record.finish_s),
            segments,
            admissions,
            np.frombuffer(record.chunks, CHUNK),
            np.array(record.preemptions, np.int64).view(EVENT),
            np.array(record.held_back, np.int64).view(EVENT),
            np.array(record.odd_gaps).view(ODD_GAP),
            np.array(record.recomputing).view(RECOMPUTING),
            np.array(record.shared_tails, np.int64).reshape(-1, 2),
            what_ifs,
        )

    @property
    def first_steps(self) -> Ints:
        """The number of the first step of each segment, int64 [segments]."""
        return first_steps(self.segments)

    @property
    def duration_s(self) -> Floats:
        """Seconds that each segment takes, float64 [segments]."""
        steps: Ints = self.segments["steps"]
        duration: Floats = steps * self.segments["first_s"] + self.segments["growth_s"] * (steps * (steps - 1) // 2)
        return duration

    @property
    def end_s(self) -> float:
        """When the last step ended; 0 if there was none."""
        return float(self.segments["start_s"][-1] + self.duration_s[-1]) if len(self.segments) else 0.0

    @property
    def waiting_at_start(self) -> Ints:
        """Requests that wait while the first step of each segment runs, int64 [segments]."""
        return self.waiting(self.first_steps, self.segments["start_s"])

    def waiting(self, steps: Ints, start_s: Floats) -> Ints:
        """Requests that wait during `steps`, int64 [n] in order, which start at `start_s`.

        Those that have arrived and can be served, less those that came in, and those that came back.
        """
        arrived = np.searchsorted(self.arrival_s[~self.rejected], start_s, side="right")
        back = np.searchsorted(self.preemptions["step"], steps, side="right")
        came = np.searchsorted(self.admissions["step"], steps, side="right")
        waiting: Ints = arrived + back - came
        return waiting

    @property
    def num_steps(self) -> int:
        """Steps in which something was running, or waited for room."""
        return int(self.segments["steps"].sum())

    @property
    def slots_per_block(self) -> int:
        """Tokens in what the log calls a block: a slot, behind an allocator of contiguous runs."""
        return self.config.block_size if self.config.allocator == PAGED else 1

    @property
    def finishes(self) -> tuple[Ints, Ints]:
        """(rows, steps) of requests that finished, in order of the running list, which is that of last admissions.

        The step is the last of the segment at whose end the request finished.
        """
        latest = self.admissions["row"][::-1]
        rows = latest[np.sort(np.unique(latest, return_index=True)[1])][::-1]  # each once, by its last admission
        rows = rows[~np.isnan(self.finish_s[rows])]
        segment = np.searchsorted(self.segments["start_s"], self.finish_s[rows], side="left") - 1
        return rows, (self.first_steps + self.segments["steps"] - 1)[segment]

    @property
    def recomputed_tokens(self) -> int:
        """Tokens computed once more, because of preemptions."""
        return int(self.chunks["recomputed"].sum())

    def totals(self, first_step: int = 0) -> dict[str, int]:
        """Sums over the run, or over its stretches from `first_step` on, by the names of the recordings' format.

        `steps` apart: idle time has no steps here.
        """
        segments = self.segments[self.first_steps >= first_step]
        since = self.admissions["step"] >= first_step
        totals = {
            "preemptions": int((self.preemptions["step"] >= first_step).sum()),
            "scheduled_tokens": int((segments["tokens"] * segments["steps"]).sum()),
            "sampled_tokens": int(self.output_tokens[~np.isnan(self.finish_s)].sum()),
            "recomputed_tokens": int(self.chunks["recomputed"][self.chunks["step"] >= first_step].sum()),
            "peak_blocks_used": int(segments["blocks_last"].max(initial=0)),
            "peak_running": int(segments["running"].max(initial=0)),
        }
        for kind, of in (("first", ~self.is_return), ("return", self.is_return)):
            for name, column in (("queries", "known_tokens"), ("hits", "hit_tokens")):
                found = int(self.admissions[column][of & since].sum())
                totals[f"prefix_{name}_{kind}"] = found if self.config.prefix_caching else 0
        return totals

    @property
    def is_return(self) -> NDArray[np.bool_]:
        """Whether an admission is of a request that had been preempted, bool [admissions]."""
        return _is_return(self.admissions["row"])


def first_steps(segments: Rows) -> Ints:
    """Steps before each segment."""
    steps: Ints = segments["steps"]
    return np.cumsum(steps) - steps


def _is_return(rows: Any) -> NDArray[np.bool_]:
    returns = np.ones(len(rows), np.bool_)
    returns[np.unique(rows, return_index=True)[1]] = False
    return returns


def _admitted_s(segments: Rows, admissions: Rows, requests: int) -> Floats:
    """Each step that admits is a segment of its own."""
    admitted_s = np.full(requests, np.nan)
    first = admissions[~_is_return(admissions["row"])]
    admitted_s[first["row"]] = segments["start_s"][np.searchsorted(first_steps(segments), first["step"])]
    return admitted_s
