from __future__ import annotations

from pathlib import Path

import pytest
import torch
from model_cases import check_against, engine_of, prompts, random_shape, write_model

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.kernels.decode_graphs import DecodeGraphs, Forward, batch_sizes
from pagesim.kernels.errors import UnsupportedError

BATCH = prompts(1, 3, 20)
# one layer and few heads: the interpreter takes a fifth of a second for a kernel
SMALL = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 48, "head_dim": 64}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter multiplies masked lanes, which hold NaN
@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("qwen2", {"token_budget": 16}),
        ("qwen3", {"cache": "reservation", "max_model_len": 40}),
        ("llama", {"cache": "exact-fit:best", "token_budget": 16}),
        ("mistral", {"prefix_caching": True, "token_budget": 16}),
    ],
)
def test_logits_and_tokens_equal_transformers(family: str, options: dict, tmp_path: Path) -> None:
    reference = write_model(tmp_path, family, random_shape(family, 1) | SMALL, seed=1)
    engine = engine_of(tmp_path, backend="triton", num_blocks=8, **({"max_model_len": 64} | options))
    assert "triton: Triton kernels, interpreted" in "\n".join(engine.report())
    check_against(reference, engine, BATCH, max_tokens=3)
    if engine.config.prefix_caching:
        check_against(reference, engine, BATCH, max_tokens=3)
        assert engine.scheduler.totals.prefix_hits_first > 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_decodes_padded_as_for_a_graph_give_the_same_tokens(tmp_path: Path) -> None:
    """Capturing needs a card; here a replay is the captured pass run again over the same buffers."""
    reference = write_model(tmp_path, "qwen2", random_shape("qwen2", 1) | SMALL, seed=1)
    engine = engine_of(tmp_path, backend="triton", num_blocks=12, max_model_len=64, max_num_seqs=3)
    runner, captured = engine.runner, []

    def capture(forward: Forward) -> Forward:
        captured.append(forward)
        return forward

    runner.graphs = DecodeGraphs(
        runner.decoder.logits, engine.tensors.layout, torch.device("cpu"), 3, engine.max_model_len, capture
    )
    check_against(reference, engine, prompts(2, 5, 20), max_tokens=4)
    assert len(captured) >= 2


def test_blocks_the_kernels_do_not_take_are_refused_at_the_start() -> None:
    with pytest.raises(UnsupportedError, match=r"block_size is 8; .* multiples of 16"):
        Engine(EngineConfig("random:tiny", backend="triton", block_size=8, num_blocks=600))


def test_batch_sizes_reach_the_largest() -> None:
    assert batch_sizes(1) == [1]
    assert batch_sizes(3) == [1, 2, 3]
    assert batch_sizes(40) == [1, 2, 4, 8, 16, 32, 40]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forks_copy_blocks_and_preemption_recomputes() -> None:
    outputs = []
    for options in ({"backend": "triton", "num_blocks": 7}, {"num_blocks": 40}):
        engine = Engine(EngineConfig("random:tiny", max_model_len=64, **options), audit=True)
        sampling = SamplingParams(max_tokens=14, seed=3, n=4, fork=True)
        outputs.append([sample.token_ids for sample in engine.generate([list(range(9))], sampling)[0].samples])
        assert engine.scheduler.totals.preemptions > 0 or options["num_blocks"] == 40
    assert outputs[0] == outputs[1]
