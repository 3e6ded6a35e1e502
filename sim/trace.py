"""A trace: which requests arrive when, and how long each turns out to be.

Columns, not rows: ten million requests are three arrays of 80 MB. A trace is facts only; how a file is read is in
`formats`, how one is drawn at random is in `workload`. Token ids are left out: `hash_ids` say which prompts share text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagesim.sim.errors import TraceError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_ARRIVAL_S = 1e12  # thirty thousand years: past this, too, the unit is mistaken
MAX_TOKENS = 2**40  # a length past this is a mistake of unit, and sums of ten million of them still fit 64 bits


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of names, stored once each: request i is called `names[codes[i]]`, and None means it has no name.

    `codes`: int32 [requests]. `names`: each name once, in order of first appearance, so that equal columns are equal
    bytes.
    """

    codes: NDArray[np.int32]
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, values: list[str | None]) -> Labels:
        """Encode a list of names."""
        index: dict[str | None, int] = {}
        codes = np.fromiter((index.setdefault(v, len(index)) for v in values), np.int32, len(values))
        return cls(_frozen(codes), tuple(index))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        return self.names[int(self.codes[row])]

    def take(self, rows: Ints) -> Labels:
        """The same column for `rows` alone, names renumbered by first appearance."""
        used, first, inverse = np.unique(self.codes[rows], return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return Labels(_frozen(rank[inverse.reshape(-1)]), tuple(self.names[used[k]] for k in order))


@dataclass(frozen=True, slots=True, eq=False)
class HashIds:
    """Which prompts share text: one id for every `hash_block_tokens` tokens of a prompt, the last for the remainder.

    `values`: int64 [ids of all requests, one after the other]. `offsets`: int64 [requests + 1]; request i has
    `values[offsets[i]:offsets[i + 1]]`.
    """

    values: Ints
    offsets: Ints

    @classmethod
    def of(cls, rows: list[list[int]]) -> HashIds:
        """Join a list of ids per request."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=offsets[1:])
        return cls(_frozen(np.array([v for r in rows for v in r], np.int64)), _frozen(offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: Ints) -> HashIds:
        """The same column for `rows` alone."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        where = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return HashIds(_frozen(self.values[where]), _frozen(offsets))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival. Equal arrivals keep their order.

    `arrival_s`: float64 [requests], seconds, >= 0, not decreasing. `prompt_tokens`, `output_tokens`: int64 [requests],
    >= 1. The rest is None where the source has nothing of the kind: `hash_ids` with `hash_block_tokens` (tokens an id
    stands for), `session`, `cache_salt`, `adapter`, `n` (int64 [requests], >= 1, samples asked for) and `priority`
    (int64 [requests], the least is served first).

    Raises TraceError, naming the first bad row (from 0), field and value.
    """

    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    hash_ids: HashIds | None = None
    hash_block_tokens: int | None = None
    session: Labels | None = None
    cache_salt: Labels | None = None
    adapter: Labels | None = None
    n: Ints | None = None
    priority: Ints | None = None

    def __post_init__(self) -> None:
        for name in ("arrival_s", "prompt_tokens", "output_tokens", "n", "priority"):
            column = getattr(self, name)
            if column is not None:
                dtype = np.float64 if name == "arrival_s" else np.int64
                object.__setattr__(self, name, _frozen(np.asarray(column, dtype)))
        _check(self)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def total_tokens(self) -> Ints:
        """Prompt and output together, int64 [requests]."""
        return self.prompt_tokens + self.output_tokens

    @property
    def num_samples(self) -> int:
        """Answers asked for: n of each prompt, or one."""
        return len(self) if self.n is None else int(self.n.sum())

    @property
    def mean_rate_per_s(self) -> float | None:
        """Requests a second, over the span; None if all arrive at once."""
        return len(self) / self.span_s if self.span_s else None

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last; 0 for an empty trace."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) else 0.0

    def take(self, rows: Ints) -> Trace:
        """The trace of `rows` alone, which must keep the order of arrival."""
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "hash_block_tokens"}
        taken: Any = {name: None if column is None else column.take(rows) for name, column in columns.items()}
        return replace(self, **taken)

    def with_arrivals(self, arrival_s: Floats) -> Trace:
        """The same requests at other times."""
        return replace(self, arrival_s=arrival_s)

    def sha256(self) -> str:
        """Hash of the content: equal traces have equal hashes, whatever file or generator they came from."""
        digest = hashlib.sha256(b"pagesim.trace/1")
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                digest.update(f"\0{field.name}\0{len(self)}\0".encode())
                for part in _bytes(value):
                    digest.update(part)
        return digest.hexdigest()


def _bytes(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"), copy=False)).data]
    if isinstance(value, HashIds):
        return _bytes(value.values) + _bytes(value.offsets)
    if isinstance(value, Labels):
        names = b"".join(b"-" if n is None else f"+{len(n)}:{n}".encode() for n in value.names)
        return [*_bytes(value.codes), names]
    return [str(value).encode()]


def _frozen(column: NDArray[Any]) -> NDArray[Any]:
    if column.flags.writeable:
        column = column.view()
        column.flags.writeable = False
    return column


def _check(trace: Trace) -> None:
    size = len(trace.arrival_s)
    for field in fields(trace):
        column = getattr(trace, field.name)
        if column is not None and not isinstance(column, int) and len(column) != size:
            raise TraceError(f"column {field.name} has {len(column)} rows; arrival_s has {size}")
    arrival = trace.arrival_s
    _refuse(arrival, ~np.isfinite(arrival), "arrival_s", "a finite number of seconds")
    _refuse(arrival, (arrival < 0) | (arrival > MAX_ARRIVAL_S), "arrival_s", f"0 to {MAX_ARRIVAL_S:g} seconds")
    _refuse(arrival, np.concatenate([[False], np.diff(arrival) < 0]), "arrival_s", "no earlier than the row before")
    for name in ("prompt_tokens", "output_tokens", "n"):
        column = getattr(trace, name)
        if column is not None:
            _refuse(column, (column < 1) | (column > MAX_TOKENS), name, f"a whole number from 1 to {MAX_TOKENS}")
    if (trace.hash_ids is None) != (trace.hash_block_tokens is None):
        raise TraceError("hash_ids and hash_block_tokens come together, or not at all")
    if trace.hash_ids is not None and trace.hash_block_tokens is not None:
        if trace.hash_block_tokens < 1:
            raise TraceError(f"hash_block_tokens is {trace.hash_block_tokens}; accepted: 1 or more")
        counts, wanted = np.diff(trace.hash_ids.offsets), -(-trace.prompt_tokens // trace.hash_block_tokens)
        accepted = f"one id for every {trace.hash_block_tokens} tokens of the prompt"
        _refuse(counts, counts != wanted, "hash_ids", accepted)


def _refuse(column: NDArray[Any], bad: NDArray[np.bool_], name: str, accepted: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        what = f"{column[row]} ids" if name == "hash_ids" else f"{name} {column[row]}"
        raise TraceError(f"row {row}: {what}; accepted: {accepted}")
