"""A sweep in short: a line for each variant and allocator, with intervals over the seeds. Read off the dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pagesim.sim.stats import Interval, amount, share
from pagesim.sim.sweep.dataset import NAMES, ROWS_AT_ONCE
from pagesim.sim.sweep.plan import Plan, varied_options

LOAD = "trace_offered_load"
PLACED = (
    "refused_share", "refused_token_share", "occupied", "used", "internal", "free", "steady_sequences", "dropped_share",
    "never_filled_share",
    "at_refusal_occupied_mean", "at_refusal_unusable_mean",
)  # fmt: skip
SERVED = (
    "output_tokens_per_s", "goodput_per_s", "ttft_s_p50", "ttft_s_p99", "tpot_s_p50", "tpot_s_p99", "e2e_s_p50",
    "e2e_s_p99", "preempted_share", "occupied", "used", "reserved", "internal", "waited_no_blocks_share",
    "running_mean", "prefix_hit_share",
)  # fmt: skip
DERIVED = {  # figure: what it is of what
    "preempted_share": ("preempted_requests", "requests"),
    "never_filled_share": ("internal", "occupied"),
}
POOL_SHARES = ("occupied", "used", "reserved", "internal", "free")


@dataclass(frozen=True, slots=True)
class Line:
    """One variant and allocator. `options`: what varies, as it was said. `runs`: seeds that came to a result, `failed`:
    that did not; `error`: what the first of those says. `figures`: means over the seeds; None where no seed has one.
    """

    variant: int
    options: Mapping[str, Any]
    allocator: str | None
    runs: int
    failed: int
    error: str | None
    offered_load: float | None
    mean_tokens: float | None
    figures: Mapping[str, Interval | None]

    def as_json(self) -> dict[str, Any]:
        """Nested plain values."""
        figures = {name: None if each is None else each.as_json() for name, each in self.figures.items()}
        return {
            "variant": self.variant, "options": dict(self.options), "allocator": self.allocator, "runs": self.runs,
            "failed": self.failed, "error": self.error, "offered_load": self.offered_load,
            "mean_tokens": self.mean_tokens, "figures": figures,
        }  # fmt: skip


def varied(plan: Plan) -> list[str]:
    """The options that are not the same in all variants, by column."""
    return [NAMES.get(name, name) for name in varied_options(plan)]


def summary(path: Path, options: Sequence[str]) -> list[Line]:
    """Every line of a dataset, in its order. `options`: the columns that vary."""
    file = pq.ParquetFile(path)
    there = set(file.schema_arrow.names)
    names = [name for name in dict.fromkeys((*PLACED, *SERVED)) if name in there | DERIVED.keys()]
    needed = [
        "variant",
        "seed",
        "allocator",
        "error",
        LOAD,
        "mean_tokens",
        *options,
        *names,
        "preempted_requests",
        "requests",
    ]
    rows = _rows(file, [name for name in dict.fromkeys(needed) if name in there])
    by_variant = groupby(rows, key=lambda row: row["variant"])
    return [line for _, group in by_variant for line in _lines(list(group), options, names)]


def _rows(file: pq.ParquetFile, columns: list[str]) -> Iterator[dict[str, Any]]:
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns):
        for row in batch.to_pylist():
            for name, (part, whole) in DERIVED.items():
                if row.get(part) is not None:
                    row[name] = row[part] / row[whole] if row[whole] else 0.0
            yield row


def _lines(rows: list[dict[str, Any]], options: Sequence[str], names: Sequence[str]) -> Iterator[Line]:
    for allocator in dict.fromkeys(row["allocator"] for row in rows):
        own = [row for row in rows if row["allocator"] == allocator]
        good = [row for row in own if row["error"] is None]
        errors = [row["error"] for row in own if row["error"] is not None]
        loads = [row[LOAD] for row in good if row[LOAD] is not None]
        yield Line(
            own[0]["variant"],
            {name: own[0][name] for name in options},
            allocator,
            len(good),
            len(errors),
            errors[0] if errors else None,
            sum(loads) / len(loads) if loads else None,
            own[0].get("mean_tokens"),
            {name: _interval(name, [row.get(name) for row in good]) for name in names},
        )


def _interval(name: str, values: list[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return (share if name.endswith("_share") or name in POOL_SHARES else amount)(known)
