"""What happened to one trace: columns by request, by admission, and by stretch of like steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.record import ADMISSION, PREEMPTION, SEGMENT, Record
from pagesim.sim.serving.requests import Requests
from pagesim.sim.trace import Floats, Ints, Trace

Rows = NDArray[np.void]


@dataclass(frozen=True, slots=True, eq=False)
class ServingLog:
    """The log of a run, from which all figures and every single step follow.

    By request: `rejected` (bool), and float64 seconds on the run's clock, NaN where it did not happen: `admitted_s` (the
    start of the step that first let it in), `first_token_s` and `finish_s`. `segments` is of SEGMENT, `admissions` of
    ADMISSION and `preemptions` of PREEMPTION, in order of time. `odd_gaps_s`: intervals between two tokens of one
    request that were longer than a step. `taking` as in Record, None unless it was kept. `totals` by the names of the
    recordings' format.
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
    preemptions: Rows
    odd_gaps_s: Floats
    taking: dict[int, tuple[int, ...]] | None
    recomputed_tokens: int

    @classmethod
    def of(cls, trace: Trace, config: ServingConfig, requests: Requests, record: Record) -> ServingLog:
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
            np.array(record.preemptions, np.int64).view(PREEMPTION),
            np.array(record.odd_gaps_s),
            record.taking,
            record.recomputed_tokens,
        )

    @property
    def first_steps(self) -> Ints:
        """The number of the first step of each segment, int64 [segments]."""
        return first_steps(self.segments)

    @property
    def num_steps(self) -> int:
        """Steps in which something was running, or waited for room."""
        return int(self.segments["steps"].sum())

    def totals(self) -> dict[str, int]:
        """Sums over the run, by the names of the recordings' format, `steps` apart: idle time has no steps here."""
        segments, returns = self.segments, self.is_return
        totals = {
            "preemptions": len(self.preemptions),
            "scheduled_tokens": int((segments["tokens"] * segments["steps"]).sum()),
            "sampled_tokens": int(self.output_tokens[~np.isnan(self.finish_s)].sum()),
            "recomputed_tokens": self.recomputed_tokens,
            "peak_blocks_used": int(segments["blocks_last"].max(initial=0)),
            "peak_running": int(segments["running"].max(initial=0)),
        }
        for kind, of in (("first", ~returns), ("return", returns)):
            for name, column in (("queries", "known_tokens"), ("hits", "hit_tokens")):
                found = int(self.admissions[column][of].sum())
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
