"""Packed matrices: the same products, and an honest account of what they take."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.models.model_config import read_config
from pagesim.engine.models.presets import PRESETS
from pagesim.engine.models.weights import Weights, make_weights, random_fill
from pagesim.kernels.linear import Linear, can_pack

CPU = torch.device("cpu")
TINY = read_config(PRESETS["tiny"], "tiny")
needs_onednn = pytest.mark.skipif(not can_pack(torch.empty(0)), reason="this torch has no oneDNN")


def weights(tied: bool, *, pack: bool) -> Weights:
    config = replace(TINY, tie_embeddings=tied)
    return make_weights(config, torch.empty(0), random_fill(CPU, seed=0), pack=pack)


@needs_onednn
@pytest.mark.parametrize("rows", [1, 2, 17, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_matrix_gives_the_same_products(rows: int, bias: bool) -> None:
    linear = Linear(torch.randn(70, 33), torch.randn(70) if bias else None)
    x = torch.randn(rows, 33)
    torch.testing.assert_close(linear.packed()(x), linear(x))


@needs_onednn
def test_packing_copies_a_tied_head_and_nothing_else() -> None:
    plain = {tied: weights(tied, pack=False) for tied in (True, False)}
    head = TINY.vocab_size * TINY.hidden_size * 4
    assert plain[False].num_bytes - plain[True].num_bytes == head
    for tied, copy in ((False, 0), (True, head)):
        packed = weights(tied, pack=True)
        assert plain[tied].copy_bytes == 0
        assert (packed.num_bytes, packed.copy_bytes) == (plain[tied].num_bytes, copy)


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
def test_each_matrix_is_packed_before_the_next_is_made() -> None:
    """So that no more than one is there twice."""
    matrices: dict[str, weakref.ref[torch.Tensor]] = {}
    fill = random_fill(CPU, seed=0)

    def watch(name: str, tensor: torch.Tensor) -> None:
        if name.endswith("_proj.weight"):
            matrix = tensor._base  # what it is a view of
            assert all((kept := each()) is None or kept is matrix for each in matrices.values()), name
            matrices[name] = weakref.ref(matrix)
        fill(name, tensor)

    made = make_weights(TINY, torch.empty(0), watch, pack=True)
    assert len(matrices) == 7 * TINY.num_layers
    assert all(layer.qkv.is_packed and layer.down.is_packed for layer in made.layers)


def test_without_onednn_weights_stay_as_they_are_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> tuple[str, tuple[int, ...]]:
        engine = Engine(EngineConfig("random:tiny", num_blocks=8, max_model_len=64))
        (output,) = engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=16))
        return "\n".join(engine.report()), output.token_ids

    usual = answer()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not weights(tied=True, pack=True).head.is_packed
    plain = answer()
    assert "torch linear" in plain[0]
    assert plain[1] == usual[1]
