"""A recorded run of vLLM's scheduler as an experiment: its config and requests, to be run again here (`--scenario`).

Reads the format `pagesim-golden-1`. One step takes one unit of time there, so arrivals are counted in steps, and a
replay goes with a step time of 1 s. The recorded steps themselves are left for a comparer to read.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import msgspec
import numpy as np

from pagesim.sim.errors import TraceError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.trace import HashIds, Labels, Trace

FORMAT = "pagesim-golden-1"
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recording's experiment. `trace.arrival_s` counts steps; request i is called `ids[i]`.

    `totals`: the sums over the recorded run, by the names of the format.
    """

    name: str
    config: ServingConfig
    trace: Trace
    ids: tuple[str, ...]
    totals: dict[str, int]


class _Config(msgspec.Struct):
    num_blocks: int
    block_size: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    enable_prefix_caching: bool
    long_prefill_token_threshold: int = 0
    reserve_full_isl: bool = True
    watermark: float = 0.0


class _Request(msgspec.Struct):
    id: str
    arrival: int
    prompt_tokens: int
    output_tokens: int
    hash_ids: list[int] | None = None
    cache_salt: str | None = None


class _Recording(msgspec.Struct):
    format: str
    name: str
    config: _Config
    requests: list[_Request]
    hash_block_tokens: int | None = None
    totals: dict[str, int] = {}


def read_scenario(path: Path) -> Scenario:
    """Read a recording, gzipped or not. Raises TraceError naming the file and what is wrong in it."""
    recording = _decoded(path)
    if recording.format != FORMAT:
        raise TraceError(f"{path}: format {recording.format!r}; accepted: {FORMAT}")
    c = recording.config
    config = ServingConfig(
        num_blocks=c.num_blocks,
        block_size=c.block_size,
        token_budget=c.max_num_batched_tokens,
        max_num_seqs=c.max_num_seqs,
        max_model_len=c.max_model_len,
        prefix_caching=c.enable_prefix_caching,
        long_prefill_threshold=c.long_prefill_token_threshold,
        reserve_full_isl=c.reserve_full_isl,
        watermark=c.watermark,
    )
    ids = tuple(request.id for request in recording.requests)
    if len(set(ids)) < len(ids):
        raise TraceError(f"{path}: two requests have one id; accepted: each id once")
    try:
        trace = _trace(recording)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error
    return Scenario(recording.name, config, trace, ids, recording.totals)


def _decoded(path: Path) -> _Recording:
    try:
        data = path.read_bytes()
        if data.startswith(GZIP_MAGIC):
            data = gzip.decompress(data)
        return msgspec.json.decode(data, type=_Recording)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: cannot be read ({error})") from error
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: not a recording of {FORMAT} ({error})") from error


def _trace(recording: _Recording) -> Trace:
    requests, each = recording.requests, recording.hash_block_tokens
    salts = [request.cache_salt for request in requests]
    return Trace(
        np.array([request.arrival for request in requests], np.float64),
        np.array([request.prompt_tokens for request in requests], np.int64),
        np.array([request.output_tokens for request in requests], np.int64),
        hash_ids=None if each is None else _hash_ids(requests, each),
        hash_block_tokens=each,
        cache_salt=Labels.of(salts) if any(salt is not None for salt in salts) else None,
    )


def _hash_ids(requests: list[_Request], each: int) -> HashIds:
    """Ids of every prompt; one that gives none shares its text with nobody, and gets ids that are nobody else's."""
    unused = count(1 + max((i for request in requests for i in request.hash_ids or ()), default=0))
    rows = [
        request.hash_ids if request.hash_ids is not None else [next(unused) for _ in range(-(-request.prompt_tokens // each))]
        for request in requests
    ]
    return HashIds.of(rows)
