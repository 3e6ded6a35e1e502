"""What must be known of a server before a trace is put on it: its model, its pool, and that nobody else uses it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from pagesim.sim.errors import UsageError
from pagesim.validate.server.errors import GoneError, NonsenseError, RefusedError
from pagesim.validate.server.http import Server
from pagesim.validate.server.metrics import CONFIG, Metrics, read_metrics

MODELS = "/v1/models"


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


@dataclass(frozen=True, slots=True)
class About:
    """`max_model_len` None: the server does not say. `before`: its metrics when it was idle."""

    model: str
    max_model_len: int | None
    before: Metrics


def ask_about(server: Server, model: str | None) -> About:
    """`model`: which of its names to use, default the first. Raises UsageError if it cannot be measured at all."""
    try:
        found = _model(server, model)
        before = read_metrics(server)
    except (GoneError, NonsenseError, RefusedError) as error:
        raise UsageError(
            f"--server {server.address}: {error}; accepted: an OpenAI-compatible server with /metrics"
        ) from error
    if before.num_requests:
        raise UsageError(
            f"--server {server.address}: {before.num_requests:.0f} requests run or wait there; accepted: an idle "
            "server, or the figures are somebody else's too"
        )
    return About(found.id, found.max_model_len, before)


def pool_of(about: About, num_blocks: int | None, block_size: int | None) -> tuple[int, int]:
    """Blocks of the server's pool and tokens in each: its own word, or else what was told. UsageError."""
    cache = about.before.cache
    blocks, size = cache.num_blocks or num_blocks, cache.block_size or block_size
    if blocks is None or size is None:
        flags = [flag for flag, value in (("--num-blocks", blocks), ("--block-size", size)) if value is None]
        raise UsageError(f"the server's /metrics have no {CONFIG} that says its pool; accepted: {' and '.join(flags)}")
    return blocks, size


def _model(server: Server, wanted: str | None) -> _Model:
    data = server.get(MODELS)
    try:
        models = msgspec.json.decode(data, type=_Models).data
    except msgspec.DecodeError as error:
        raise NonsenseError(f"GET {MODELS}: no list of models ({error})") from error
    if not models:
        raise NonsenseError(f"GET {MODELS}: an empty list")
    for model in models:
        if wanted in (None, model.id):
            return model
    raise UsageError(f"--model {wanted}: not served; accepted: {', '.join(model.id for model in models)}")
