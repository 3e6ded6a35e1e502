"""Packed matrices: the same products, and an honest account of what they take."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.model_config import read_config
from pagesim.engine.presets import PRESETS
from pagesim.engine.weights import Linear, Weights, fill_randomly, packs

CPU = torch.device("cpu")
TINY = read_config(PRESETS["tiny"], "tiny")
needs_onednn = pytest.mark.skipif(not packs(CPU, torch.float32), reason="this torch has no oneDNN")


def weights(tied: bool) -> Weights:
    made = Weights.empty(replace(TINY, tie_embeddings=tied), torch.float32, CPU)
    fill_randomly(made, seed=0)
    return made


@needs_onednn
@pytest.mark.parametrize("rows", [1, 2, 17, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_matrix_gives_the_same_products(rows: int, bias: bool) -> None:
    linear = Linear.empty(70, 33, bias, torch.empty(0))
    for tensor in linear.tensors():
        tensor.normal_()
    x = torch.randn(rows, 33)
    torch.testing.assert_close(linear.packed()(x), linear(x))


@needs_onednn
def test_packing_copies_a_tied_head_and_nothing_else() -> None:
    plain = {tied: weights(tied).num_bytes for tied in (True, False)}
    head = TINY.vocab_size * TINY.hidden_size * 4
    assert plain[False] - plain[True] == head
    assert weights(tied=False).packed().num_bytes == plain[False]
    assert weights(tied=True).packed().num_bytes == plain[True] + head


@needs_onednn
def test_each_matrix_is_given_up_when_it_is_packed() -> None:
    before = weights(tied=True)
    after = before.packed()
    assert before.layers is after.layers
    assert all(layer.qkv.weight.is_mkldnn and layer.down.weight.is_mkldnn for layer in before.layers)


def test_without_onednn_weights_stay_as_they_are_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> tuple[str, tuple[int, ...]]:
        engine = Engine(EngineConfig("random:tiny", num_blocks=8, max_model_len=64))
        (output,) = engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=16))
        return "\n".join(engine.report()), output.token_ids

    usual = answer()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    made = weights(tied=True)
    assert made.packed() is made and not made.is_packed
    plain = answer()
    assert "torch linear" in plain[0]
    assert plain[1] == usual[1]
