"""Small random models of the four families, written by transformers, and what transformers computes with them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.batch import Batch
from pagesim.engine.runner import Runner

FAMILIES = ("qwen2", "qwen3", "llama", "mistral")
VOCAB = 150
MAX_POSITIONS = 256
TOLERANCE = 1e-4  # of the largest logit


@dataclass(frozen=True)
class Reference:
    """A model on disk, and transformers' own copy of it."""

    path: Path
    model: Any

    def logits(self, token_ids: list[int]) -> torch.Tensor:
        """[tokens, vocab] fp32."""
        with torch.inference_mode():
            return self.model(torch.tensor([token_ids])).logits[0]


def random_shape(family: str, seed: int) -> dict[str, Any]:
    """What a config.json of `family` may say, drawn at random."""
    draw = random.Random(f"{family} {seed}")
    kv_heads = draw.choice([1, 2])
    shape: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": draw.choice([24, 48, 96]),
        "intermediate_size": draw.choice([48, 80]),
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "num_attention_heads": kv_heads * draw.choice([1, 2, 3]),
        "num_key_value_heads": kv_heads,
        "head_dim": draw.choice([64, 80]),
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": draw.choice([1e-5, 1e-6]),
        "tie_word_embeddings": draw.choice([True, False]),
        "rope_parameters": {"rope_type": "default", "rope_theta": draw.choice([1e4, 5e5])},
        "initializer_range": 0.3,
    }
    if family == "mistral":
        shape["sliding_window"] = draw.choice([None, 5, 16])
    elif family in ("qwen2", "qwen3") and draw.random() < 0.4:
        shape |= {"use_sliding_window": True, "sliding_window": draw.choice([4, 9]), "max_window_layers": 1}
    if family in ("llama", "qwen3"):
        shape["attention_bias"] = draw.choice([True, False])
    if family == "llama":
        shape["mlp_bias"] = draw.choice([True, False])
        shape["rope_parameters"] |= draw.choice(
            [
                {},
                {"rope_type": "linear", "factor": 2.0},
                {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 32,
                },
            ]
        )
    return shape


def write_model(folder: Path, family: str, shape: dict[str, Any], seed: int, **save: Any) -> Reference:
    """Biases are random too: transformers would leave them at zero, which hides a wrong one."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape), attn_implementation="eager")
    model = model.float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
            elif name.endswith("norm.weight"):
                parameter.normal_(1, 0.2)
    model.save_pretrained(folder, **save)
    return Reference(folder, model)


@dataclass
class Recorded:
    """Logits by (sequence id, position of the token that was sampled from them)."""

    logits: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)


@contextmanager
def recording() -> Iterator[Recorded]:
    """While it is entered, every runner's logits are kept."""
    recorded, plain = Recorded(), Runner.logits

    def logits(self: Runner, batch: Batch) -> torch.Tensor:
        found = plain(self, batch)
        for row, sequence in enumerate(batch.samplers):
            recorded.logits[sequence.id, len(sequence.tokens)] = found[row].clone()
        return found

    Runner.logits = logits  # type: ignore[method-assign]
    try:
        yield recorded
    finally:
        Runner.logits = plain  # type: ignore[method-assign]


def prompts(seed: int, count: int, longest: int) -> list[list[int]]:
    """Ragged prompts, one of them a single token."""
    draw = random.Random(seed)
    lengths = [1, longest, *(draw.randint(1, longest) for _ in range(count - 2))]
    return [[draw.randrange(VOCAB) for _ in range(length)] for length in lengths]


def check_against(reference: Reference, engine: Engine, batch: list[list[int]], max_tokens: int, n: int = 1) -> None:
    """Every logit is within the tolerance of transformers' own; of n = 1, every token is the one that it would choose.

    Token by token it follows, from one pass of transformers over prompt and answer, that its own answer is the same.
    More samples are drawn, as forks of one prompt, and go ways of their own.
    """
    sampling = SamplingParams(temperature=int(n > 1), seed=7, max_tokens=max_tokens, ignore_eos=True, n=n, fork=n > 1)
    with recording() as recorded:
        outputs = engine.generate(batch, sampling)
    for prompt, output in zip(batch, outputs, strict=True):
        assert len({sample.token_ids for sample in output.samples}) == len(output.samples) == n
        for sample in output.samples:
            assert len(sample.token_ids) == max_tokens
            tokens = [*prompt, *sample.token_ids]
            expected = reference.logits(tokens)
            name = output.request_id if n == 1 else f"{output.request_id}.{sample.index}"
            for position in range(len(prompt), len(tokens)):
                right, found = expected[position - 1], recorded.logits[name, position]
                assert (found - right).abs().max() <= TOLERANCE * right.abs().max(), (name, position)
                if n == 1:
                    assert tokens[position] == int(right.argmax()), (name, position)
    assert engine.cache.blocks_used == 0
    engine.cache.check()


def engine_of(path: Path, **options: Any) -> Engine:
    """An audited engine of fp32 weights."""
    options = {"dtype": "float32", "max_model_len": MAX_POSITIONS, "num_blocks": 64} | options
    return Engine(EngineConfig(str(path), **options), audit=True)
