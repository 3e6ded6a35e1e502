"""What a reader of traces may be asked to do, and what it tells afterwards.

Nothing is dropped, sorted or moved in silence: an option decides, and the report counts. How files are read is in
`formats`; this file loads no libraries, so that the command line can take its defaults from here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pagesim.sim.errors import UsageError

OnBadRow = Literal["stop", "skip"]
ZeroOutput = Literal["drop", "one", "stop"]
Unsorted = Literal["sort", "stop"]
Duplicates = Literal["keep", "drop"]
Start = Literal["zero", "keep"]

_ACCEPTED = {
    "on_bad_row": ("stop", "skip"),
    "zero_output": ("drop", "one", "stop", None),
    "unsorted": ("sort", "stop"),
    "duplicates": ("keep", "drop"),
    "start": ("zero", "keep", None),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a trace file is read. The defaults live here and nowhere else.

    `on_bad_row`: the first bad row stops the reading, or bad rows are skipped and counted. `zero_output`: requests
    that gave no token are dropped, count as one token, or are bad rows; None does what the format asks for.
    `unsorted`: rows out of order are sorted (equal arrivals keep their order), or are an error. `duplicates`: equal
    rows are kept, or all but the first dropped. `jitter_s`: every arrival is moved later by its own draw from
    [0, jitter_s), with `jitter_seed`. `hash_block_tokens`: tokens that one hash id stands for; None is the format's.
    `start`: the first arrival is moved to 0 s, or kept; None keeps it in our own format and moves it in any other.
    `limit`: only so many requests, the first usable ones of the file, are read.

    Raises UsageError on a value that is not accepted.
    """

    on_bad_row: OnBadRow = "stop"
    zero_output: ZeroOutput | None = None
    unsorted: Unsorted = "sort"
    duplicates: Duplicates = "keep"
    jitter_s: float = 0.0
    jitter_seed: int = 0
    hash_block_tokens: int | None = None
    start: Start | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name, accepted in _ACCEPTED.items():
            if getattr(self, name) not in accepted:
                words = ", ".join(word for word in accepted if word)
                raise UsageError(f"{name.replace('_', '-')} {getattr(self, name)!r}; accepted: {words}")
        if not (math.isfinite(self.jitter_s) and self.jitter_s >= 0):
            raise UsageError(f"jitter {self.jitter_s:g} s; accepted: a finite number of seconds, 0 or more")
        for name, low in (("hash_block_tokens", 1), ("limit", 1), ("jitter_seed", 0)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise UsageError(f"{name.replace('_', '-')} {value}; accepted: {low} or more")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What a file held, and what was changed on the way to the trace. Counts are rows of the file;
    `requests` are the rows of the trace.

    `zero_output` says what was done with the `zero_output_rows`. `out_of_order_rows` arrived before the row in front of
    them. `shifted_by_s` was taken off every arrival; `first_arrival` is
    the first one as the file has it. `limit`
    is there if reading stopped at it. `left_out` names the columns a trace has no place for.
    """

    format: str
    rows_read: int
    requests: int
    blank_lines: int = 0
    bad_rows_skipped: int = 0
    first_bad_row: str | None = None
    zero_output_rows: int = 0
    zero_output: ZeroOutput = "stop"
    out_of_order_rows: int = 0
    duplicate_rows: int = 0
    duplicates_dropped: int = 0
    distinct_arrivals: int = 0
    jitter_s: float = 0.0
    shifted_by_s: float = 0.0
    first_arrival: str = ""
    limit: int | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it, with its sentences under `changed`."""
        return {**asdict(self), "changed": self.sentences()}

    def sentences(self) -> list[str]:
        """What a person is told: one sentence for each thing that was changed, or is odd; none if nothing was."""
        drop = "dropped" if self.zero_output == "drop" else "counted as one token"
        told = [
            (self.blank_lines, f"{_count(self.blank_lines, 'blank line')} passed over"),
            (
                self.bad_rows_skipped,
                f"{_count(self.bad_rows_skipped, 'bad row')} skipped, the first at {self.first_bad_row}",
            ),
            (self.zero_output_rows, f"{_count(self.zero_output_rows, 'row')} without an output token: {drop}"),
            (self.out_of_order_rows, f"{_count(self.out_of_order_rows, 'row')} out of order: sorted by arrival"),
            (self.duplicate_rows, f"{_count(self.duplicate_rows, 'row')} equal to an earlier one: {self._fate()}"),
            (self.shifted_by_s, f"arrivals count from the first, which is {self.first_arrival}"),
            (self.jitter_s, f"every arrival moved later by its own draw from [0, {self.jitter_s:g}) s"),
            (self._coarse(), f"arrivals fall on {self.distinct_arrivals:,} distinct times only; --jitter spreads them"),
            (self.limit, f"only the first {self.limit or 0:,} usable rows of the file were read"),
            (self.left_out, f"left out, for want of a place in a trace: {', '.join(self.left_out)}"),
        ]
        return [sentence for happened, sentence in told if happened] + list(self.notes)

    def _fate(self) -> str:
        return "dropped" if self.duplicates_dropped else "kept"

    def _coarse(self) -> bool:
        return self.jitter_s == 0 and self.requests > 2 * self.distinct_arrivals > 0


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
