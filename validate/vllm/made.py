"""vLLM's own objects, made without a model: its scheduler, its requests, what a model would have answered.

Nothing is replaced and nothing is downloaded. The model's configuration is a small file that is written for the
occasion, of which the scheduler asks for the longest sequence alone. The scheduler is the synchronous one, over one
group of full attention.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pagesim.engine.sequence import Sequence
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
}  # fmt: skip
HASH = "sha256"  # of prefix blocks: vLLM's default
QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}  # fmt: skip


def check_importable() -> None:
    """Import vLLM. It says errors alone, on stderr, and reaches for no network, unless the environment says otherwise.

    Raises UsageError if it is installed and cannot be imported.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import vllm.v1.core.sched.scheduler  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:  # a library of its own is missing, or is of another release
        line = str(error).partition("\n")[0]
        raise UsageError(
            f"vLLM is installed and cannot be imported ({line}); accepted: what its own pip brings"
        ) from error


def make_scheduler(rules: ServingConfig) -> Any:
    """A `vllm.v1.core.sched.scheduler.Scheduler` under our rules. Raises UsageError where vLLM refuses them."""
    check_importable()
    import torch
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    try:
        config = _config(rules)
    except ValueError as error:  # pydantic's too
        raise UsageError(f"vLLM refuses the rules: {_line(error)}") from error
    config.cache_config.num_gpu_blocks = rules.num_blocks
    tokens = FullAttentionSpec(block_size=rules.block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    groups = [KVCacheGroupSpec(["layer"], tokens)]
    return Scheduler(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(rules.num_blocks, kv_cache_tensors=[], kv_cache_groups=groups),
        structured_output_manager=StructuredOutputManager(config),
        block_size=rules.block_size,
        log_stats=True,
    )


def _config(rules: ServingConfig) -> Any:
    from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig

    scheduler = SchedulerConfig(
        max_num_batched_tokens=rules.token_budget,
        max_num_seqs=rules.max_num_seqs,
        max_model_len=rules.max_model_len,
        is_encoder_decoder=False,
        enable_chunked_prefill=rules.chunked_prefill,
        long_prefill_token_threshold=rules.long_prefill_threshold,
        scheduler_reserve_full_isl=rules.reserve_full_isl,
        watermark=rules.watermark,
        policy=rules.policy,
        async_scheduling=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(MODEL | {"max_position_embeddings": rules.max_model_len})
        Path(folder, "config.json").write_text(text, encoding="utf-8")
        model = ModelConfig(
            model=folder, skip_tokenizer_init=True, dtype="float16", max_model_len=rules.max_model_len, seed=0
        )
    return VllmConfig(
        model_config=model,
        scheduler_config=scheduler,
        cache_config=CacheConfig(block_size=rules.block_size, enable_prefix_caching=rules.prefix_caching),
        device_config=DeviceConfig(device="cpu"),
    )


def request_maker(rules: ServingConfig) -> Callable[[Sequence, float], Any]:
    """Makes a `vllm.v1.request.Request` of a sequence and its place among the arrivals."""
    from vllm.lora.request import LoRARequest
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    hash_function = get_hash_fn_by_name(HASH)
    init_none_hash(hash_function)
    hasher = get_request_block_hasher(rules.block_size, hash_function) if rules.prefix_caching else None

    def make(sequence: Sequence, arrival: float) -> Any:
        adapter = sequence.adapter
        return Request(
            request_id=sequence.id,
            prompt_token_ids=sequence.prompt,
            sampling_params=SamplingParams(temperature=0.0, max_tokens=sequence.sampling.max_tokens, ignore_eos=True),
            pooling_params=None,
            arrival_time=arrival,
            lora_request=None if adapter is None else LoRARequest(adapter, 1, adapter),
            cache_salt=sequence.salt,
            priority=sequence.priority,
            block_hasher=hasher,
        )

    return make


def model_output(scheduled: Mapping[str, int], sampled: Mapping[str, int]) -> Any:
    """What a model would have answered to a step: a token of each that samples."""
    from vllm.v1.outputs import ModelRunnerOutput

    ids = list(scheduled)
    return ModelRunnerOutput(
        req_ids=ids,
        req_id_to_index={id: index for index, id in enumerate(ids)},
        sampled_token_ids=[[sampled[id]] if id in sampled else [] for id in ids],
    )


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "Value error, " in line]
    return named[0].partition("Value error, ")[2].partition(" [type=")[0] if named else lines[0]
