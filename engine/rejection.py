"""What can never be served is turned away on arrival, where vLLM's scheduler would let it wait forever."""

from __future__ import annotations

from pagesim.engine.cache_manager import CacheManager
from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import RequestError
from pagesim.engine.sequence import Sequence


def check_request(sequence: Sequence, config: EngineConfig, cache: CacheManager, max_model_len: int) -> None:
    """Raise RequestError unless an idle engine could serve `sequence`, with its forks, to its end."""
    if sequence.num_prompt >= max_model_len:
        raise RequestError(
            f"the prompt of request {sequence.id!r} has {sequence.num_prompt} tokens; "
            f"accepted: at most {max_model_len - 1}, one less than max_model_len"
        )
    slots = min(sequence.max_slots, max_model_len - 1)
    if slots > cache.max_slots:
        raise RequestError(
            f"request {sequence.id!r} needs {slots} tokens of cache; accepted: at most the pool's {cache.max_slots}"
        )
    if sequence.forks and not cache.is_paged:
        raise RequestError(f"request {sequence.id!r} forks; accepted: with cache 'paged', whose blocks are shared")
    if any(fork.tokens != sequence.tokens or fork.forks for fork in sequence.forks):
        raise RequestError(
            f"a fork of request {sequence.id!r} is not one; accepted: a sequence of the same prompt, without forks"
        )
    if len(sequence.forks) >= config.max_num_seqs:
        raise RequestError(
            f"request {sequence.id!r} has {1 + len(sequence.forks)} samples; "
            f"accepted: at most max_num_seqs, {config.max_num_seqs}"
        )
