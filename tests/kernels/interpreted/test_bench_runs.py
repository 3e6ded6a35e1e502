"""The code that will run on a card, run here on CPU tensors with a timer that does not time: does every case launch?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from pagesim.kernels import bench_peers
from pagesim.kernels.bench import case_rows, copy_bandwidth
from pagesim.kernels.bench_cases import Case, Heads
from pagesim.kernels.bench_inputs import make_inputs
from pagesim.kernels.cpu_decode import decode_attention_cpu
from pagesim.kernels.settings import Card

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from gpu_check_cases import check_far_blocks, correctness

CPU = torch.device("cpu")


def run_once(runs) -> float:
    for run in runs:
        assert run() is not None
    return 2.0


def test_a_case_runs_in_every_addressing_and_beside_sdpa() -> None:
    rows = case_rows(Case(Heads(), 2, 40, 16), CPU, Card(80, 4), 2, 1e9, run_once)
    ours = [row for row in rows if row["kernel"] == "pagesim"]
    assert {(r["addressing"], r["tiles_in_flight"], r["stages"]) for r in ours} == {
        ("CONTIGUOUS", 0, 1), ("BY_POSITION", 0, 1), ("BY_BLOCK", 0, 1),
        ("CONTIGUOUS", 3, 4), ("BY_POSITION", 3, 7), ("BY_BLOCK", 3, 7),
    }  # fmt: skip
    assert len({r["tile"] for r in ours}) == len({r["splits"] for r in ours}) == 1
    assert all(row["time_us"] == 2000.0 for row in rows)
    assert "torch SDPA, contiguous" in {row["kernel"] for row in rows}


def test_a_kernel_that_fails_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(inputs):
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setattr(bench_peers, "PEERS", {"broken": ("torch", broken)})
    rows = case_rows(Case(Heads(), 1, 20, 16), CPU, Card(80, 1), 1, 1e9, run_once)
    assert [row["failed"] for row in rows if row["kernel"] == "broken"] == ["RuntimeError: no such kernel"]
    assert sum("time_us" in row for row in rows) == 6


def test_sdpa_and_our_kernel_are_given_the_same_problem() -> None:
    inputs = make_inputs(Case(Heads(dtype="fp32"), 3, 40, 16), CPU, seed=0)
    ours = decode_attention_cpu(inputs.query, inputs.cache, inputs.sequences, inputs.options)
    assert torch.allclose(bench_peers.torch_sdpa(inputs)()[:, :, 0], ours, atol=1e-5)


def test_copy_bandwidth_counts_both_ways() -> None:
    assert copy_bandwidth(CPU, run_once, num_bytes=1000) == pytest.approx(2 * 1000 / 2e-3)


def test_the_correctness_half_of_gpu_check_passes_under_the_interpreter() -> None:
    rows = list(correctness("cpu", shapes=((4, 2, 64),), chunks=((1, 1), (17, 5), (40, 40)), far_blocks=40))
    assert len(rows) == 3 * 2 * 2 + 3 * 2 + 1
    assert [row for row in rows if not row["right"]] == []


def test_the_correctness_half_sees_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_check_cases

    def stale(*arguments, **options):
        raise ValueError("planted")

    monkeypatch.setattr(gpu_check_cases, "write_kv", stale)
    rows = [row for row in correctness("cpu", shapes=(), far_blocks=40) if not row["right"]]
    assert {row["check"] for row in rows} == {"kv write"}
    assert check_far_blocks("cpu", 40)["right"]
