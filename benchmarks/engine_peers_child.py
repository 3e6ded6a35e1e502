"""One engine under the load of `engine_peers.py`: started by it, in that engine's own environment.

    python engine_peers_child.py ENGINE JOB.json

Writes one JSON line once it is warm and one for each line it reads: the seconds that the load took, those that the
processor spent on it, and the answers. It imports nothing of pagesim unless ENGINE is "pagesim", so that an environment
needs the one engine alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Answers = list[list[int]]
Serve = Callable[[], Answers]
BLOCK = 32  # vLLM's CPU build takes multiples of 32


@dataclass(frozen=True)
class Job:
    """`model`: a directory. `prompts`: token ids, each to be continued greedily by `output_tokens`."""

    model: str
    dtype: str
    threads: int
    prompts: list[list[int]]
    output_tokens: int

    @property
    def max_model_len(self) -> int:
        return 2 * BLOCK * -(-(len(self.prompts[0]) + self.output_tokens) // BLOCK)


def pagesim(job: Job) -> tuple[Serve, str]:
    import torch

    from pagesim.engine import Engine, EngineConfig, SamplingParams

    torch.set_num_threads(job.threads)
    engine = Engine(EngineConfig(job.model, max_model_len=job.max_model_len, kv_bytes=2**28))
    sampling = SamplingParams(temperature=0, max_tokens=job.output_tokens, ignore_eos=True)

    def serve() -> Answers:
        return [list(output.token_ids) for output in engine.generate(job.prompts, sampling)]

    return serve, f"torch {torch.__version__}"


def vllm(job: Job, eager: bool = False) -> tuple[Serve, str]:
    """In one process, without the hop to another that its server makes; its threads are bound to the first cores."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{job.threads - 1}" if job.threads > 1 else "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    from vllm import LLM, SamplingParams, __version__

    engine = LLM(
        job.model,
        skip_tokenizer_init=True,
        dtype=job.dtype,
        max_model_len=job.max_model_len,
        block_size=BLOCK,
        enable_prefix_caching=False,
        enforce_eager=eager,
    )
    sampling = SamplingParams(temperature=0, max_tokens=job.output_tokens, ignore_eos=True, detokenize=False)
    prompts: Any = [{"prompt_token_ids": prompt} for prompt in job.prompts]

    def serve() -> Answers:
        outputs = engine.generate(prompts, sampling, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    return serve, f"vllm {__version__}"


def vllm_eager(job: Job) -> tuple[Serve, str]:
    return vllm(job, eager=True)


def generate_batch(job: Job) -> tuple[Serve, str]:
    """transformers' paged attention with continuous batching; without `num_blocks` its cache fills the memory."""
    from transformers import ContinuousBatchingConfig

    model, config, version = _transformers(job, "paged|sdpa")
    blocks = len(job.prompts) * (job.max_model_len // BLOCK)
    paged = ContinuousBatchingConfig(page_size=BLOCK, num_blocks=blocks, max_batch_tokens=2048)

    def serve() -> Answers:
        found = model.generate_batch(job.prompts, generation_config=config, continuous_batching_config=paged)
        ordered = sorted(found.values(), key=lambda output: int(output.request_id.rpartition("_")[2]))
        return [list(output.generated_tokens) for output in ordered]

    return serve, version


def generate(job: Job) -> tuple[Serve, str]:
    """transformers' plain batch, which all start and end together."""
    import torch

    model, config, version = _transformers(job, "sdpa")
    prompts = torch.tensor(job.prompts)

    def serve() -> Answers:
        answers = model.generate(prompts, attention_mask=torch.ones_like(prompts), generation_config=config)
        found: Answers = answers[:, prompts.shape[1] :].tolist()
        return found

    return serve, version


def _transformers(job: Job, attention: str) -> tuple[Any, Any, str]:
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig, __version__

    torch.set_num_threads(job.threads)
    model = AutoModelForCausalLM.from_pretrained(job.model, dtype=job.dtype, attn_implementation=attention)
    length = job.output_tokens
    config = GenerationConfig(do_sample=False, max_new_tokens=length, min_new_tokens=length, pad_token_id=0)
    return model, config, f"transformers {__version__}, torch {torch.__version__}"


ENGINES = {each.__name__: each for each in (pagesim, vllm, vllm_eager, generate_batch, generate)}


def main() -> None:
    answers_to = os.fdopen(os.dup(1), "w", buffering=1)  # what the libraries print goes to the log
    os.dup2(2, 1)
    job = Job(**json.loads(Path(sys.argv[2]).read_text()))
    begin = time.perf_counter()
    serve, version = ENGINES[sys.argv[1]](job)
    serve()
    answers_to.write(json.dumps({"version": version, "start_s": time.perf_counter() - begin}) + "\n")
    for _ in sys.stdin:
        begin, cpu = time.perf_counter(), time.process_time()
        answers = serve()
        took = {"seconds": time.perf_counter() - begin, "cpu_s": time.process_time() - cpu}
        answers_to.write(json.dumps(took | {"answers": answers}) + "\n")


if __name__ == "__main__":
    main()
