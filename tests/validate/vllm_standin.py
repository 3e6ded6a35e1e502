"""A stand-in for the part of vLLM's interface that is used here, under vLLM's names. It is not vLLM.

Behind it decides the engine's scheduler, so that what is tested is how vLLM is told and read: rules, requests, a step,
its outputs, its statistics. What vLLM itself does is tested where vLLM is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pagesim.engine.cache_manager import make_cache
from pagesim.engine.config import EngineConfig
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.scheduler import Scheduler as EngineScheduler
from pagesim.engine.sequence import Sequence

STAND_IN = "a stand-in"


class Box:
    """What a configuration was told, as attributes; nothing else may be asked for."""

    def __init__(self, **told: Any) -> None:
        self.__dict__.update(told)


class SchedulerConfig(Box):
    def __init__(self, **told: Any) -> None:
        if told["max_num_batched_tokens"] < told["max_num_seqs"]:
            raise ValueError(
                "1 validation error\n  Value error, max_num_batched_tokens is too small [type=value_error]"
            )
        assert told["async_scheduling"] is False and told["is_encoder_decoder"] is False
        super().__init__(**told)


class Request:
    def __init__(self, request_id: str, prompt_token_ids: list[int], sampling_params: Any, **more: Any) -> None:
        lora, hasher = more["lora_request"], more["block_hasher"]
        self.request_id, self.hashed = request_id, hasher
        self.sequence = Sequence(
            request_id,
            prompt_token_ids,
            SamplingParams(temperature=0, max_tokens=sampling_params.max_tokens, ignore_eos=sampling_params.ignore_eos),
            salt=more["cache_salt"],
            adapter=lora and lora.lora_name,
            priority=more["priority"],
        )
        self.num_computed_tokens = 0

    @property
    def num_tokens(self) -> int:
        return len(self.sequence.tokens)


class Scheduler:
    """The attributes and methods of vLLM's that are used, over the engine's scheduler."""

    def __init__(self, vllm_config: Any, kv_cache_config: Any, block_size: int, log_stats: bool, **_: Any) -> None:
        rules, cache = vllm_config.scheduler_config, vllm_config.cache_config
        (group,) = kv_cache_config.kv_cache_groups
        assert group.kv_cache_spec.block_size == cache.block_size == block_size and log_stats
        assert kv_cache_config.num_blocks == cache.num_gpu_blocks
        config = EngineConfig(
            "none",
            num_blocks=cache.num_gpu_blocks,
            block_size=block_size,
            token_budget=rules.max_num_batched_tokens,
            max_num_seqs=rules.max_num_seqs,
            max_model_len=rules.max_model_len,
            prefix_caching=cache.enable_prefix_caching,
            chunked_prefill=rules.enable_chunked_prefill,
            long_prefill_threshold=rules.long_prefill_token_threshold or None,
            reserve_full_isl=rules.scheduler_reserve_full_isl,
            watermark=rules.watermark,
            policy=rules.policy,
        )
        self._cache = make_cache(config, cache.num_gpu_blocks, rules.max_model_len)
        self._engine = EngineScheduler(config, self._cache, rules.max_model_len)
        self.requests: dict[str, Request] = {}
        self._stats: dict[str, int] = {}
        pool = SimpleNamespace(num_gpu_blocks=cache.num_gpu_blocks, get_num_free_blocks=self._num_free)
        self.kv_cache_manager = SimpleNamespace(block_pool=pool)

    @property
    def running(self) -> list[Request]:
        return [self.requests[sequence.id] for sequence in self._engine.running]

    @property
    def waiting(self) -> list[Request]:
        return [self.requests[sequence.id] for sequence in self._engine.waiting]

    def get_request_counts(self) -> tuple[int, int]:
        return len(self._engine.running), len(self._engine.waiting)

    def get_num_unfinished_requests(self) -> int:
        return len(self.requests)

    def add_request(self, request: Request) -> None:
        assert (request.hashed is not None) == self._engine.config.prefix_caching
        self.requests[request.request_id] = request
        self._engine.add(request.sequence)

    def schedule(self) -> Any:
        step = self._step = self._engine.schedule()
        for victim in step.preempted:
            self._preempt_request(self.requests[victim.id], 0.0)
        for chunk in step.chunks:
            self.requests[chunk.sequence.id].num_computed_tokens = chunk.stop
        new = [(each, hit) for each, hit in step.admitted if not each.num_preemptions]
        back = [(each, hit) for each, hit in step.admitted if each.num_preemptions]
        return SimpleNamespace(
            num_scheduled_tokens={chunk.sequence.id: chunk.num_tokens for chunk in step.chunks},
            total_num_scheduled_tokens=step.scheduled_tokens,
            preempted_req_ids={each.id for each in step.preempted},
            scheduled_new_reqs=[SimpleNamespace(req_id=each.id, num_computed_tokens=hit) for each, hit in new],
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=[each.id for each, _ in back],
                num_computed_tokens=[hit for _, hit in back],
                resumed_req_ids={each.id for each, _ in back},
            ),
        )

    def update_from_output(self, decided: Any, output: Any) -> Any:
        assert output.req_ids == list(decided.num_scheduled_tokens)
        tokens = {id: output.sampled_token_ids[index] for id, index in output.req_id_to_index.items()}
        samplers = {chunk.sequence.id for chunk in self._step.chunks if chunk.samples}
        assert {id for id, sampled in tokens.items() if sampled} == samplers
        sampled = {id: tokens[id][0] for id in samplers}
        for each in self._engine.finish_step(self._step, sampled):
            del self.requests[each.id]
        return {0: SimpleNamespace(scheduler_stats=SimpleNamespace(prefix_cache_stats=self._news()))}

    def _preempt_request(self, request: Request, timestamp: float) -> None:
        request.num_computed_tokens = 0

    def _num_free(self) -> int:
        return self._cache.num_blocks - 1 - self._cache.blocks_used

    def _news(self) -> Any:
        totals, before = self._engine.totals.as_dict(), self._stats
        self._stats = totals
        names = {"queries": "queries_first", "hits": "hits_first", "preempted_queries": "queries_return",
                 "preempted_hits": "hits_return"}  # fmt: skip
        moved = {name: totals[f"prefix_{of}"] - before.get(f"prefix_{of}", 0) for name, of in names.items()}
        return SimpleNamespace(**moved)


def _group(layers: list[str], spec: Any) -> Any:
    return SimpleNamespace(layer_names=layers, kv_cache_spec=spec)


def _kv_cache_config(num_blocks: int, kv_cache_tensors: Any, kv_cache_groups: Any) -> Any:
    return SimpleNamespace(num_blocks=num_blocks, kv_cache_tensors=kv_cache_tensors, kv_cache_groups=kv_cache_groups)


def _adapter(name: str, number: int, path: str) -> Any:
    return SimpleNamespace(lora_name=name)


MODULES: dict[str, dict[str, Callable[..., Any]]] = {
    "vllm": {},
    "vllm.config": dict.fromkeys(("CacheConfig", "DeviceConfig", "ModelConfig", "VllmConfig"), Box)
    | {"SchedulerConfig": SchedulerConfig},
    "vllm.lora": {},
    "vllm.lora.request": {"LoRARequest": _adapter},
    "vllm.sampling_params": {"SamplingParams": Box},
    "vllm.utils": {},
    "vllm.utils.hashing": {"get_hash_fn_by_name": lambda name: hash},
    "vllm.v1": {},
    "vllm.v1.core": {},
    "vllm.v1.core.kv_cache_utils": {
        "get_request_block_hasher": lambda size, of: of,
        "init_none_hash": lambda of: None,
    },
    "vllm.v1.core.sched": {},
    "vllm.v1.core.sched.scheduler": {"Scheduler": Scheduler},
    "vllm.v1.kv_cache_interface": {
        "FullAttentionSpec": Box,
        "KVCacheConfig": _kv_cache_config,
        "KVCacheGroupSpec": _group,
    },
    "vllm.v1.outputs": {"ModelRunnerOutput": Box},
    "vllm.v1.request": {"Request": Request},
    "vllm.v1.structured_output": {"StructuredOutputManager": lambda config: None},
}


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of vLLM until the test ends."""
    for name, content in MODULES.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
