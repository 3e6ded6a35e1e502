"""Packed matrices: the same products, and an honest account of what they take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.models.model_config import read_config
from pagesim.engine.models.presets import PRESETS
from pagesim.engine.models.weights import Linear, Weights, fill_randomly, packs

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
    for view in linear.named({"part": 70}).values():
        view.normal_()
    x = torch.randn(rows, 33)
    torch.testing.assert_close(linear.packed()(x), linear(x))


@needs_onednn
def test_packing_copies_a_tied_head_and_nothing_else() -> None:
    plain = {tied: weights(tied).num_bytes for tied in (True, False)}
    head = TINY.vocab_size * TINY.hidden_size * 4
    assert plain[False] - plain[True] == head
    for tied, copy in ((False, 0), (True, head)):
        assert weights(tied).copy_bytes == 0
        packed = weights(tied).packed()
        assert (packed.num_bytes, packed.copy_bytes) == (plain[tied], copy)


@needs_onednn
def test_the_copy_of_a_tied_head_is_in_the_account(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PRESETS["tiny"] | {"tie_word_embeddings": True}))
    config = EngineConfig(f"random:{tmp_path}", memory=2**26, max_model_len=64, token_budget=64)
    account = Engine(config).account
    head = TINY.vocab_size * TINY.hidden_size * 4
    assert account.copy_bytes == head
    spent = account.weights_bytes + head + account.activation_bytes + account.cache_bytes
    assert 2**26 - account.block_bytes < spent <= 2**26
    assert any("512.00 KiB a packed copy of the tied head" in line for line in account.lines())


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
